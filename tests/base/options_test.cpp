// The option parser: what it takes, and that whatever it refuses is named with its value.
#include "runtime/base/options.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>

namespace farpage {
namespace {

Result<Options> parse(std::initializer_list<const char*> environment, std::vector<std::string>* unknown = nullptr) {
  return parse_options(std::span(environment.begin(), environment.size()), unknown);
}

Options parsed(std::initializer_list<const char*> environment) {
  auto result = parse(environment);
  REQUIRE_MESSAGE(result.ok(), result.failure().message);
  return std::move(result).value();
}

std::string refusal(const char* entry) {
  const auto result = parse({entry});
  if (result.ok()) return "";
  CHECK(result.status() == Status::InvalidArgument);
  return result.failure().message;
}

TEST_CASE("options: absent means the default") {
  const Options options = parsed({"PATH=/bin", "DSMX=1", "XDSM_CACHE_BYTES=2M"});
  CHECK(options.cache_bytes == Options{}.cache_bytes);
  CHECK(options.domain == "host");
  CHECK_FALSE(options.stats);
}

TEST_CASE("options: byte values take the suffixes K, M, G, T, with B or iB") {
  const std::pair<const char*, uint64_t> cases[] = {
      {"DSM_CACHE_BYTES=1048576", 1_MiB}, {"DSM_CACHE_BYTES=1024K", 1_MiB},  {"DSM_CACHE_BYTES=16m", 16_MiB},
      {"DSM_CACHE_BYTES=16MB", 16_MiB},   {"DSM_CACHE_BYTES=16MiB", 16_MiB}, {"DSM_CACHE_BYTES=3G", 3_GiB},
      {"DSM_CACHE_BYTES=2T", 2048_GiB}};
  for (const auto& [entry, bytes] : cases) {
    CAPTURE(std::string(entry));
    CHECK(parsed({entry}).cache_bytes == bytes);
  }
}

TEST_CASE("options: times take their unit and no other") {
  CHECK(parsed({"DSM_HOLD=70"}).hold == 70);
  CHECK(parsed({"DSM_HOLD=70us"}).hold == 70);
  CHECK(refusal("DSM_HOLD=70ms") != "");
  CHECK(parsed({"DSM_FAULT_TIMEOUT=500ms"}).fault_timeout == 500);
  CHECK(refusal("DSM_FAULT_TIMEOUT=500us") != "");
}

TEST_CASE("options: flags take 0, 1 and their words") {
  for (const char* entry : {"DSM_STATS=1", "DSM_STATS=yes", "DSM_STATS=true", "DSM_STATS=on"})
    CHECK(parsed({entry}).stats);
  for (const char* entry : {"DSM_STATS=0", "DSM_STATS=no", "DSM_STATS=false", "DSM_STATS=off"})
    CHECK_FALSE(parsed({entry}).stats);
  CHECK(refusal("DSM_STATS=2") != "");
}

TEST_CASE("options: a malformed value is refused, naming variable and value") {
  for (const char* entry : {"DSM_CACHE_BYTES=", "DSM_CACHE_BYTES=abc", "DSM_CACHE_BYTES=-1", "DSM_CACHE_BYTES=1.5G",
                            "DSM_CACHE_BYTES=1X", "DSM_CACHE_BYTES=1Kx", "DSM_CACHE_BYTES= 1M",
                            "DSM_CACHE_BYTES=99999999999999999999", "DSM_CACHE_BYTES=18446744073709551615T",
                            "DSM_STREAM_BLOCKS=many", "DSM_STREAM_BLOCKS=1K", "DSM_DOMAIN=", "DSM_HOLD=0x10"}) {
    CAPTURE(std::string(entry));
    const std::string text(entry), message = refusal(entry);
    CHECK(message.starts_with(text.substr(0, text.find('=') + 1)));
    CHECK(message.find(text.substr(text.find('=') + 1)) != std::string::npos);
  }
}

TEST_CASE("options: values out of range are refused") {
  for (const char* entry :
       {"DSM_CACHE_BYTES=1", "DSM_CACHE_BYTES=63K", "DSM_CACHE_BYTES=511K", "DSM_COHERENT_BLOCK_BYTES=2K",
        "DSM_COHERENT_BLOCK_BYTES=12K", "DSM_IMMUTABLE_BLOCK_BYTES=4M", "DSM_FAULT_TIMEOUT=50", "DSM_INIT_TIMEOUT=1",
        "DSM_HEARTBEAT=1", "DSM_HOLD=5000", "DSM_LOG=4", "DSM_STREAM_BLOCKS=2000", "DSM_TRANSPORT=pigeon",
        "DSM_DOMAIN=rack", "DSM_DOMAIN=0"}) {
    CAPTURE(std::string(entry));
    CHECK(refusal(entry).starts_with("DSM_"));
  }
  CHECK(parsed({"DSM_HOLD=5000", "DSM_HOLD_MAX=5000"}).hold == 5000);
  CHECK(refusal("DSM_DOMAIN=2") == "");
  // A cache that cannot hold eight blocks of the largest kind.
  CHECK_FALSE(parse({"DSM_IMMUTABLE_BLOCK_BYTES=2M", "DSM_CACHE_BYTES=8M"}).ok());
  CHECK(parse({"DSM_IMMUTABLE_BLOCK_BYTES=2M", "DSM_CACHE_BYTES=16M"}).ok());
}

TEST_CASE("options: unknown DSM_ variables are collected, not refused") {
  std::vector<std::string> unknown;
  REQUIRE(parse({"DSM_CASH_BYTES=1M", "DSM_LOG=2", "DSM_X=", "UCX_TLS=tcp"}, &unknown).ok());
  CHECK(unknown == std::vector<std::string>{"DSM_CASH_BYTES", "DSM_X"});
}

TEST_CASE("options: the description has every option once, with help, and shows what was set") {
  const auto infos = describe_options(parsed({"DSM_CACHE_BYTES=16M"}));
  CHECK(infos.size() > 10);
  size_t seen = 0;
  for (const OptionInfo& info : infos) {
    CHECK(std::string_view(info.variable).starts_with("DSM_"));
    CHECK(std::string_view(info.help).size() > 10);
    if (std::string_view(info.variable) == "DSM_CACHE_BYTES") {
      seen++;
      CHECK(info.value == "16M");
      CHECK(info.default_value == "1G");
    } else {
      CHECK(info.value == info.default_value);
    }
  }
  CHECK(seen == 1);
}

TEST_CASE("options: every default is what the parser makes of its own description") {
  for (const OptionInfo& info : describe_options(Options{})) {
    const std::string entry = std::string(info.variable) + "=" + info.default_value;
    CAPTURE(std::string(entry));
    const auto again = parse({entry.c_str()});
    REQUIRE(again.ok());
    CHECK(agreed_options_text(again.value()) == agreed_options_text(Options{}));
  }
}

TEST_CASE("options: what ranks must agree on leaves out what may differ") {
  const std::string base = agreed_options_text(Options{});
  CHECK(agreed_options_text(parsed({"DSM_LOG=3", "DSM_STATS=1"})) == base);
  CHECK(agreed_options_text(parsed({"DSM_CACHE_BYTES=16M"})) != base);
}

}  // namespace
}  // namespace farpage
