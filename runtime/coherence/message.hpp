// The messages of the coherence protocol, as values. How they travel is the engine's business (engine/wire).
#pragma once

#include <cstdint>

#include "runtime/base/ids.hpp"

namespace farpage::coherence {

enum class MessageType : uint8_t {
  // agent -> home: requests
  GetS,     // a read copy, please
  GetM,     // a writable copy, please
  Upgrade,  // I have a read copy and want to write
  PutS,     // I have dropped my read copy
  PutM,     // here is the block that I owned
  // agent -> home: answers
  InvAck,     // my read copy is gone
  BlockBack,  // the newest bytes; keeps_copy: I keep a read copy
  // home -> agent: grants
  DataS,
  DataM,
  UpgAck,
  // home -> agent: recalls
  Inv,       // drop your read copy
  Fetch,     // give the bytes, keep a read copy
  FetchInv,  // give the bytes, keep nothing
  PutAck,    // your PutS or PutM has been taken note of
  // IMMUTABLE regions
  GetI,
  DataI,
};
inline constexpr uint32_t kMessageTypes = 16;

struct Message {
  MessageType type = MessageType::GetS;
  AgentId from;
  uint64_t block = 0;
  bool keeps_copy = false;
};

constexpr bool to_home(MessageType type) { return type <= MessageType::BlockBack || type == MessageType::GetI; }

constexpr bool carries_block(MessageType type) {
  return type == MessageType::PutM || type == MessageType::BlockBack || type == MessageType::DataS ||
         type == MessageType::DataM || type == MessageType::DataI;
}

constexpr const char* name(MessageType type) {
  constexpr const char* kNames[kMessageTypes] = {"GetS",  "GetM",   "Upgrade", "PutS",  "PutM",     "InvAck", "BlockBack", "DataS",
                                                 "DataM", "UpgAck", "Inv",     "Fetch", "FetchInv", "PutAck", "GetI",      "DataI"};
  return kNames[static_cast<uint8_t>(type)];
}

}  // namespace farpage::coherence
