# For those who have a container daemon; tools/image makes the same files without one.
#   docker build --target operator -t strobe-operator:0.1.0 .
#   docker build --target sidecar  -t strobe-sidecar:0.1.0 .
#   docker build --target viewer   -t strobe-viewer:0.1.0 .
FROM rust:1.89-bookworm AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates python3 python3-pip
WORKDIR /strobe
COPY . .
RUN make build && cmake --build --preset release --target strobe_agent \
 && tools/setup wheel && tools/wheel \
 && tools/image operator --rootfs /operator && tools/image sidecar --rootfs /sidecar && tools/image viewer --rootfs /viewer

FROM scratch AS operator
COPY --from=build /operator /
USER 65532:65532
ENV PATH=/opt/strobe/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENTRYPOINT ["/opt/strobe/bin/strobe-operator"]

FROM scratch AS sidecar
COPY --from=build /sidecar /
USER 65532:65532
ENV PATH=/opt/strobe/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENTRYPOINT ["/opt/strobe/bin/strobe-sidecar"]

FROM scratch AS viewer
COPY --from=build /viewer /
USER 65532:65532
ENV PATH=/opt/strobe/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENTRYPOINT ["/opt/strobe/bin/strobe"]
