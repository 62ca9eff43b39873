#include "collector/store/store_options.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

// Strobe's option names, which are the same for every store, and the crate's key for each; empty if
// the store does not have the option.
struct Option {
  std::string_view name, s3, gs, az;
  // A URL, which anybody may have written, sets only harmless ones.
  enum Risk { kHarmless, kTrusted } risk;
};
constexpr std::array<Option, 7> kOptions = {{
    {"endpoint", "aws_endpoint", "google_base_url", "azure_endpoint", Option::kTrusted},
    {"region", "aws_region", "", "", Option::kHarmless},
    {"path_style", "aws_virtual_hosted_style_request", "", "", Option::kHarmless},
    {"account", "", "", "azure_storage_account_name", Option::kHarmless},
    {"anonymous", "aws_skip_signature", "google_skip_signature", "azure_skip_signature",
     Option::kHarmless},
    {"ca_bundle", "ca_bundle", "ca_bundle", "ca_bundle", Option::kTrusted},
    {"proxy", "proxy_url", "proxy_url", "proxy_url", Option::kTrusted},
}};

std::string_view KeyFor(const Option& option, std::string_view scheme) {
  return scheme == "s3" ? option.s3 : scheme == "gs" ? option.gs : option.az;
}

std::string_view CratePrefix(std::string_view scheme) {
  return scheme == "s3" ? "aws_" : scheme == "gs" ? "google_" : "azure_";
}

std::string KnownFor(std::string_view scheme) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) {
    if (!KeyFor(option, scheme).empty()) names.emplace_back(option.name);
  }
  return Join(names, ", ");
}

// The library puts these into the names of servers, without looking at them.
bool IsPartOfAHostName(std::string_view value) {
  constexpr std::size_t kMaxLabel = 63;
  return value.size() <= kMaxLabel && std::ranges::all_of(value, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
         });
}

absl::Status SetOption(std::string_view scheme, const Option& option, const std::string& value,
                       OptionMap& target) {
  const bool is_flag = option.name == "path_style" || option.name == "anonymous";
  if (is_flag && value != "true" && value != "false")
    return absl::InvalidArgumentError(StrCat(option.name, " must be true or false"));
  if (value.empty()) return absl::InvalidArgumentError(StrCat(option.name, " is empty"));
  if ((option.name == "region" || option.name == "account") && !IsPartOfAHostName(value)) {
    return absl::InvalidArgumentError(StrCat(
        option.name, " \"", value, "\" may have letters, digits and dashes only, at most 63"));
  }
  std::string set = value;
  if (option.name == "path_style") set = value == "true" ? "false" : "true";
  if (option.name == "endpoint") {
    if (!value.starts_with("https://") && !value.starts_with("http://")) {
      return absl::InvalidArgumentError(
          StrCat("endpoint \"", value, "\" must begin with https:// or http://"));
    }
    while (set.ends_with('/')) set.pop_back();
    // An endpoint with http:// implies permission for it.
    if (value.starts_with("http://")) target["allow_http"] = "true";
  }
  target[std::string(KeyFor(option, scheme))] = set;
  return absl::OkStatus();
}

// `where` is "s3.endpoint" or the URL; for the message.
absl::Status Apply(std::string_view scheme, const std::string& name, const std::string& value,
                   bool is_url, UrlOptions allowed, OptionMap& target) {
  const auto option = std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& candidate) {
    return candidate.name == name && !KeyFor(candidate, scheme).empty();
  });
  if (option == kOptions.end()) {
    if (!is_url && name.starts_with(CratePrefix(scheme))) {
      target[name] = value;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(StrCat("there is no option \"", name, "\" for ", scheme,
                                             "://; there are ", KnownFor(scheme)));
  }
  if (is_url && allowed == UrlOptions::kHarmless && option->risk != Option::kHarmless) {
    return absl::InvalidArgumentError(
        StrCat("option ", name,
               " is not accepted from a logdir's URL here; set it for the sidecar by "
               "--storage-config or the environment"));
  }
  return SetOption(scheme, *option, value, target);
}

void FromEnvironment(std::string_view scheme, const Environment& environment, OptionMap& target) {
  const auto take = [&](const char* variable, const char* key) {
    if (const std::string value = environment(variable); !value.empty()) target[key] = value;
  };
  // The crate reads the variables that it knows; these are the others.
  if (scheme == "s3") {
    take("AWS_CA_BUNDLE", "ca_bundle");
    for (const char* variable : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"}) {
      if (environment(variable).starts_with("http://")) target["allow_http"] = "true";
    }
  } else if (scheme == "gs") {
    if (const std::string host = environment("STORAGE_EMULATOR_HOST"); !host.empty()) {
      target["google_base_url"] = Contains(host, "://") ? host : "http://" + host;
      // Emulators accept any token. Without one, the crate would ask the metadata service.
      target["google_bearer_token"] = "emulator";
    }
    if (target["google_base_url"].starts_with("http://") ||
        environment("GOOGLE_BASE_URL").starts_with("http://")) {
      target["allow_http"] = "true";
    }
    if (target["google_base_url"].empty()) target.erase("google_base_url");
  } else if (environment("AZURE_STORAGE_ENDPOINT").starts_with("http://") ||
             environment("AZURE_ENDPOINT").starts_with("http://")) {
    target["allow_http"] = "true";
  }
  take("STROBE_STORAGE_CA_BUNDLE", "ca_bundle");
}

absl::Status At(std::string_view file, const YAML::Mark& mark, std::string_view message) {
  return absl::InvalidArgumentError(
      StrCat(file, ":", mark.line + 1, ":", mark.column + 1, ": ", message));
}

absl::StatusOr<StorageConfig> FromYaml(const YAML::Node& root, std::string_view file) {
  StorageConfig config;
  if (root.IsNull()) return config;
  if (!root.IsMap()) return At(file, root.Mark(), "the file must be a map with s3, gs or az");
  for (const auto& entry : root) {
    const std::string scheme = entry.first.as<std::string>();
    if (scheme != "s3" && scheme != "gs" && scheme != "az") {
      return At(file, entry.first.Mark(),
                StrCat("unknown key ", scheme, "; the known keys are az, gs, s3"));
    }
    if (!entry.second.IsMap())
      return At(file, entry.second.Mark(), StrCat(scheme, " must be a map of options"));
    for (const auto& option : entry.second) {
      const std::string name = option.first.as<std::string>();
      if (!option.second.IsScalar())
        return At(file, option.second.Mark(), StrCat(scheme, ".", name, " must be one value"));
      OptionMap ignored;
      const absl::Status status =
          Apply(scheme, name, option.second.Scalar(), /*is_url=*/false, UrlOptions::kAll, ignored);
      if (!status.ok())
        return At(file, option.first.Mark(), StrCat(scheme, ".", name, ": ", MessageOf(status)));
      config.schemes[scheme][name] = option.second.Scalar();
    }
  }
  return config;
}

}  // namespace

absl::StatusOr<StorageConfig> ParseStorageConfig(std::string_view yaml, std::string_view file) {
  try {
    return FromYaml(YAML::Load(std::string(yaml)), file);
  } catch (const YAML::Exception& error) {
    return At(file, error.mark, error.msg);
  }
}

absl::StatusOr<StorageConfig> ReadStorageConfig(const std::string& file) {
  if (file.empty()) return StorageConfig{};
  const absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok())
    return absl::InvalidArgumentError(StrCat("cannot read storage configuration ", file));
  return ParseStorageConfig(*text, file);
}

absl::StatusOr<OptionMap> ResolveStoreOptions(const Logdir& logdir, const StorageConfig& config,
                                              UrlOptions allowed, const Environment& environment) {
  RETURN_IF_ERROR(config.wrong);
  OptionMap resolved;
  const std::string& scheme = logdir.scheme();
  FromEnvironment(scheme, environment, resolved);
  if (const auto found = config.schemes.find(scheme); found != config.schemes.end()) {
    for (const auto& [name, value] : found->second)
      RETURN_IF_ERROR(Apply(scheme, name, value, /*is_url=*/false, UrlOptions::kAll, resolved));
  }
  for (const auto& [name, value] : logdir.options()) {
    const absl::Status status = Apply(scheme, name, value, /*is_url=*/true, allowed, resolved);
    if (!status.ok())
      return absl::InvalidArgumentError(StrCat("logdir ", logdir.url(), ": ", MessageOf(status)));
  }
  return resolved;
}

}  // namespace strobe::storage
