// The peer in the idle-sidecar benchmark: a gRPC server with a service that implements no method.
#include <grpcpp/grpcpp.h>

#include <iostream>

#include "strobe/v1/worker.grpc.pb.h"

int main() {
  strobe::v1::Worker::Service nothing;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&nothing);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::cout << "serves on port " << port << std::endl;
  server->Wait();
}
