// A transport that misbehaves on purpose: holds arriving messages back, hands them on in another order, twice, or not at all, as a
// seed decides. Around any other transport; the same seed and the same arrivals give the same mischief. One thread.
//
// "Sticky" payloads: the bytes that a handler was given are overwritten as soon as it returns, as a network card's buffer would
// be: whoever kept a pointer is found out.
#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace farpage::transport {

struct Mischief {
  uint64_t seed = 1;
  uint32_t delay_percent = 0;      // of messages held back for a few receive() calls
  bool reorder = false;            // which of the held ones goes on next is random
  uint32_t duplicate_percent = 0;  // handed on twice
  uint32_t lose_percent = 0;       // never handed on
  bool sticky_payloads = false;
};

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, const Mischief& mischief);

}  // namespace farpage::transport
