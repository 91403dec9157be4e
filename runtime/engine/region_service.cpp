#include "runtime/engine/region_service.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"

namespace farpage::engine {

using memory::RegionDescriptor;
using memory::RegionState;
using transport::MessageClass;

RegionService::RegionService(LaneContext& context, Outbox& outbox, RegionHost& host)
    : context_(context),
      outbox_(outbox),
      host_(host),
      calls_(reinterpret_cast<CallSlot*>(context.segment.call_slots().data()), memory::kCallSlots) {
  asked_.reserve(1024);
}

// --- calls -------------------------------------------------------------------------------------------------------------

void RegionService::answer(CallSlot& call, const Result<>& result) {
  call.status = static_cast<int32_t>(result.status());
  if (!result.ok()) {
    const std::string& text = result.failure().message;
    const size_t length = std::min(text.size(), sizeof call.message - 1);
    std::memcpy(call.message, text.data(), length);
    call.message[length] = 0;
  }
  uint32_t expected = CallSlot::Asked;
  if (call.state.compare_exchange_strong(expected, CallSlot::Answered, std::memory_order_release))
    syscall(SYS_futex, &call.state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  else
    call.state.store(CallSlot::Free, std::memory_order_release);  // the caller has given up
}

CallSlot* RegionService::call_of(uint64_t tag, CallOp op) {
  if (tag >= calls_.size() || !kept_[tag] || calls_[tag].op != op) return nullptr;
  return &calls_[tag];
}

void RegionService::keep(CallSlot& call) {
  kept_[static_cast<size_t>(&call - calls_.data())] = true;
  pending_calls_++;
}

void RegionService::done(CallSlot& call, const Result<>& result) {
  bool& kept = kept_[static_cast<size_t>(&call - calls_.data())];
  if (kept) pending_calls_--;
  kept = false;
  answer(call, result);
}

void RegionService::on_call(CallSlot& call) {
  const uint64_t tag = static_cast<uint64_t>(&call - calls_.data());
  switch (call.op) {
    case CallOp::Resolve: return resolve(call);
    case CallOp::CreateRegion: return create(call);
    case CallOp::FreeRegion:
      keep(call);
      if (owner_domain(call.offset) == context_.self()) return begin_free(call.offset, context_.self(), tag);
      return outbox_.send_control(owner_domain(call.offset), header(WireKind::FreeAsk, call.offset, tag), {},
                                  MessageClass::Request);
    case CallOp::FreeObject:
      if (owner_domain(call.offset) == context_.self())
        free_object(call.offset);
      else
        outbox_.send_control(owner_domain(call.offset), header(WireKind::FreeObject, call.offset), {}, MessageClass::Request);
      return answer(call, success());
    case CallOp::Publish: {
      keep(call);
      RankId rank{};
      for (uint32_t r = 0; r < context_.shape.ranks; r++)
        if (context_.shape.domain_of[r] == context_.self() && context_.shape.slot_of[r] == call.rank_slot)
          rank = RankId{static_cast<uint16_t>(r)};
      if (owner_domain(call.offset) == context_.self()) return publish(call.offset, rank);
      return outbox_.send_control(owner_domain(call.offset), header(WireKind::PublishAsk, call.offset, rank.value), {},
                                  MessageClass::Request);
    }
    case CallOp::Prefetch:
    case CallOp::Barrier: break;  // the lane's own
  }
  answer(call, error(Status::Internal, "call {} is not about regions", static_cast<uint32_t>(call.op)));
}

void RegionService::check_deadlines(uint64_t now_ns) {
  if (pending_calls_ == 0) return;
  for (size_t i = 0; i < calls_.size(); i++) {
    if (!kept_[i]) continue;
    CallSlot& call = calls_[i];
    const bool abandoned = call.state.load(std::memory_order_acquire) == CallSlot::Abandoned;
    if (!abandoned && now_ns < call.deadline_ns) continue;
    context_.counters().add(Counter::deadlines_missed);
    done(call, error(Status::TimedOut, "no answer from domain {}", owner_domain(call.offset).value));
  }
}

// --- finding -----------------------------------------------------------------------------------------------------------

AgentId RegionService::owner_domain(WindowOffset at) const {
  const uint64_t rank = at / context_.arena_bytes;
  return rank < context_.shape.ranks ? context_.shape.domain_of[rank] : context_.self();
}

WireHeader RegionService::header(WireKind kind, WindowOffset offset, uint64_t argument, Status status) const {
  WireHeader out;
  out.kind = kind;
  out.offset = offset;
  out.argument = argument;
  out.status = static_cast<int32_t>(status);
  return out;
}

bool RegionService::ask(WindowOffset at) {
  const AgentId owner = owner_domain(at);
  if (owner == context_.self()) return false;
  const WindowOffset run = round_down(at, kRunBytes);
  if (std::any_of(asked_.begin(), asked_.end(), [&](const Asked& asked) { return asked.run == run; })) return true;
  if (asked_.size() == asked_.capacity()) return false;
  asked_.push_back({run, false, 0});
  outbox_.send_control(owner, header(WireKind::ResolveAsk, at), {}, MessageClass::Request);
  return true;
}

void RegionService::resolve(CallSlot& call) {
  if (RegionDescriptor* region = context_.regions.find(call.offset)) {
    if (region->state == RegionState::Freeing)
      return answer(call, error(Status::Freed, "the region at offset 0x{:x} is being freed", region->offset));
    return answer(call, success());
  }
  if (!ask(call.offset)) return answer(call, error(Status::OutOfRange, "no region at offset 0x{:x}", call.offset));
  keep(call);
}

void RegionService::on_resolve_reply(const WireHeader& in, std::span<const std::byte> payload) {
  const WindowOffset run = round_down(in.offset, kRunBytes);
  const auto asked = std::find_if(asked_.begin(), asked_.end(), [&](const Asked& a) { return a.run == run; });
  if (asked == asked_.end()) return;  // not asked for, or answered twice
  const Asked question = *asked;
  asked_.erase(asked);
  RegionDescriptor* region = context_.regions.find(in.offset);
  bool dropped = false;
  if (region == nullptr && !payload.empty()) {
    RegionDescriptor descriptor;
    std::memcpy(&descriptor, payload.data(), sizeof descriptor);
    descriptor.domain_set = 0;
    dropped = question.dropped && descriptor.generation <= question.generation;
    if (!dropped) {
      if (auto inserted = context_.regions.insert(descriptor)) region = *inserted;
    }
  }
  for (size_t i = 0; i < calls_.size(); i++) {
    if (!kept_[i] || calls_[i].op != CallOp::Resolve || round_down(calls_[i].offset, kRunBytes) != run) continue;
    const auto status = dropped ? Status::Freed : static_cast<Status>(in.status);
    if (region != nullptr)
      done(calls_[i], success());
    else
      done(calls_[i], error(status == Status::Ok ? Status::OutOfMemory : status, "{} at offset 0x{:x}",
                            status == Status::Freed ? "the region was freed" : "no region", calls_[i].offset));
  }
  host_.on_resolved(in.offset, region);
}

// --- creating ----------------------------------------------------------------------------------------------------------

void RegionService::create(CallSlot& call) {
  RegionDescriptor* region = context_.regions.find(call.offset);
  DSM_CHECK(region != nullptr);
  const uint64_t others = home_domains(*region, context_.shape) & ~(uint64_t{1} << context_.self().value);
  if (others == 0) return answer(call, success());
  keep(call);
  call.lane_word[0] = others;  // who has not answered
  call.lane_word[1] = 0;       // who has refused
  region->domain_set |= others;
  for (uint32_t domain = 0; domain < context_.shape.domains; domain++) {
    if ((others >> domain & 1) == 0) continue;
    outbox_.send_control(AgentId{static_cast<uint16_t>(domain)},
                         header(WireKind::OfferRegion, call.offset, static_cast<uint64_t>(&call - calls_.data())),
                         std::as_bytes(std::span(region, 1)), MessageClass::Request);
  }
}

void RegionService::on_offer(AgentId from, const WireHeader& in, std::span<const std::byte> payload) {
  RegionDescriptor descriptor;
  std::memcpy(&descriptor, payload.data(), sizeof descriptor);
  descriptor.domain_set = 0;
  const uint64_t bytes = home_bytes_in(descriptor, context_.self(), context_.shape);
  Status status = reserve_home_bytes(context_.segment, context_.self(), bytes).status();
  if (status == Status::Ok) {
    status = context_.regions.insert(descriptor).status();
    if (status != Status::Ok) context_.counters().sub(Counter::home_bytes, bytes);
  }
  outbox_.send_control(from, header(WireKind::OfferReply, in.offset, in.argument, status), {}, MessageClass::Response);
}

// --- ending ------------------------------------------------------------------------------------------------------------

void RegionService::reply_free(AgentId to, uint64_t tag, Status status) {
  if (to != context_.self())
    return outbox_.send_control(to, header(WireKind::FreeReply, 0, tag, status), {}, MessageClass::Response);
  CallSlot* call = call_of(tag, CallOp::FreeRegion);
  if (call == nullptr) return;
  if (status == Status::Ok) return done(*call, success());
  done(*call, error(status, "no region at offset 0x{:x} that could be freed", call->offset));
}

void RegionService::begin_free(WindowOffset at, AgentId asker, uint64_t tag) {
  RegionDescriptor* region = context_.regions.find(at);
  if (region == nullptr) return reply_free(asker, tag, Status::OutOfRange);
  if (region->state == RegionState::Freeing) return reply_free(asker, tag, Status::Freed);
  const auto place = std::find_if(endings_.begin(), endings_.end(), [](const Ending& e) { return e.region == nullptr; });
  if (place == endings_.end()) return reply_free(asker, tag, Status::Busy);
  region->state = RegionState::Freeing;
  *place = {region, 0, asker, tag, false};
  const uint64_t others = region->domain_set & ~(uint64_t{1} << context_.self().value);
  WireHeader drop = header(WireKind::FreeDrop, region->offset, static_cast<uint64_t>(place - endings_.begin()));
  drop.generation = region->generation;
  drop.slot = region->end() - region->offset;
  for (uint32_t domain = 0; domain < context_.shape.domains; domain++) {
    if ((others >> domain & 1) == 0) continue;
    place->outstanding++;
    outbox_.send_control(AgentId{static_cast<uint16_t>(domain)}, drop, {}, MessageClass::Request);
  }
  place->poisoned = host_.on_drop(*region);
  if (place->outstanding == 0) finish_free(*place);
}

void RegionService::finish_free(Ending& ending) {
  const RegionDescriptor region = *ending.region;
  context_.counters().sub(Counter::home_bytes, home_bytes_in(region, context_.self(), context_.shape));
  context_.regions.erase(ending.region);
  // A range in which a rank was poisoned is never used again: the poison would outlive the region. Addresses are plenty.
  if (!ending.poisoned) give_back(region);
  const Ending finished = ending;
  ending = {};
  reply_free(finished.asker, finished.tag, Status::Ok);
}

void RegionService::give_back(const RegionDescriptor& region) { free_object(region.offset); }

void RegionService::free_object(WindowOffset at) {
  const uint64_t rank = at / context_.arena_bytes;
  if (rank >= context_.shape.ranks || context_.shape.domain_of[rank] != context_.self()) return;
  memory::Mailbox& mailbox = context_.segment.mailbox(context_.shape.slot_of[rank]);
  const uint64_t tail = mailbox.tail.load(std::memory_order_relaxed);
  memory::MailboxEntry& entry = mailbox.entries[tail % memory::kMailboxEntries];
  // A rank that has not drained 65,536 frees keeps the memory until it ends: better than waiting for it.
  if (entry.offset_plus_one.load(std::memory_order_acquire) != 0) return;
  entry.offset_plus_one.store(at + 1, std::memory_order_release);
  mailbox.tail.store(tail + 1, std::memory_order_release);
}

// --- publishing --------------------------------------------------------------------------------------------------------

void RegionService::publish(WindowOffset at, RankId rank) {
  RegionDescriptor* region = context_.regions.find(at);
  if (region == nullptr || region->state != RegionState::Live) return;  // the caller's deadline tells
  auto place = std::find_if(publishings_.begin(), publishings_.end(), [&](const Publishing& p) {
    return p.seen != 0 && p.region == region->offset && p.generation == region->generation;
  });
  if (place == publishings_.end()) {
    place = std::find_if(publishings_.begin(), publishings_.end(), [](const Publishing& p) { return p.seen == 0; });
    if (place == publishings_.end()) return;
    *place = {region->offset, region->generation, 0, {}};
  }
  if (place->ranks.test(rank.value)) return;
  place->ranks.set(rank.value);
  if (++place->seen < home_ranks(*region)) return;
  *place = {};
  WireHeader out = header(WireKind::Published, region->offset);
  out.generation = region->generation;
  for (uint32_t domain = 0; domain < context_.shape.domains; domain++)
    if (AgentId{static_cast<uint16_t>(domain)} != context_.self() && (region->domain_set >> domain & 1))
      outbox_.send_control(AgentId{static_cast<uint16_t>(domain)}, out, {}, MessageClass::Response);
  set_published(*region);
}

void RegionService::set_published(RegionDescriptor& region) {
  region.state = RegionState::Published;
  host_.on_published(region);
  for (size_t i = 0; i < calls_.size(); i++)
    if (kept_[i] && calls_[i].op == CallOp::Publish && region.contains(calls_[i].offset)) done(calls_[i], success());
}

// --- messages ----------------------------------------------------------------------------------------------------------

bool RegionService::on_message(AgentId from, const WireHeader& in, std::span<const std::byte> payload) {
  switch (in.kind) {
    case WireKind::ResolveAsk: {
      RegionDescriptor* region = context_.regions.find(in.offset);
      if (region == nullptr || region->state == RegionState::Freeing) {
        // Whoever asks will poison the address in the rank that touched it.
        if (in.offset < context_.segment.header().window_bytes) context_.segment.run_state(in.offset >> kRunShift).poisoned = 1;
        outbox_.send_control(
            from, header(WireKind::ResolveReply, in.offset, 0, region == nullptr ? Status::OutOfRange : Status::Freed), {},
            MessageClass::Response);
        return true;
      }
      region->domain_set |= uint64_t{1} << from.value;
      outbox_.send_control(from, header(WireKind::ResolveReply, in.offset), std::as_bytes(std::span(region, 1)),
                           MessageClass::Response);
      return true;
    }
    case WireKind::ResolveReply: on_resolve_reply(in, payload); return true;
    case WireKind::OfferRegion: on_offer(from, in, payload); return true;
    case WireKind::OfferReply: {
      CallSlot* call = call_of(in.argument, CallOp::CreateRegion);
      if (call == nullptr || call->offset != in.offset) return true;
      call->lane_word[0] &= ~(uint64_t{1} << from.value);
      if (static_cast<Status>(in.status) != Status::Ok) {
        call->lane_word[1] |= uint64_t{1} << from.value;
        call->lane_word[2] = static_cast<uint64_t>(in.status);
      }
      if (call->lane_word[0] != 0) return true;
      if (call->lane_word[1] == 0)
        done(*call, success());
      else
        done(*call, error(static_cast<Status>(call->lane_word[2]),
                          "domain {} has no room for its part of the region (DSM_HOME_BYTES, or the memory limit less "
                          "DSM_CACHE_BYTES)",
                          __builtin_ctzll(call->lane_word[1])));
      return true;
    }
    case WireKind::FreeAsk: begin_free(in.offset, from, in.argument); return true;
    case WireKind::FreeReply: reply_free(context_.self(), in.argument, static_cast<Status>(in.status)); return true;
    case WireKind::FreeDrop: {
      RegionDescriptor* region = context_.regions.find(in.offset);
      bool poisoned = false;
      if (region != nullptr && region->generation == in.generation) {
        region->state = RegionState::Freeing;
        poisoned = host_.on_drop(*region);
        context_.counters().sub(Counter::home_bytes, home_bytes_in(*region, context_.self(), context_.shape));
        context_.regions.erase(region);
      } else {
        for (Asked& asked : asked_) {
          if (asked.run - in.offset >= in.slot) continue;
          asked.dropped = true;
          asked.generation = in.generation;
        }
      }
      WireHeader out = header(WireKind::FreeDropped, in.offset, in.argument);
      out.flags = poisoned ? 1 : 0;
      outbox_.send_control(from, out, {}, MessageClass::Response);
      return true;
    }
    case WireKind::FreeDropped: {
      if (in.argument >= endings_.size()) return true;
      Ending& ending = endings_[in.argument];
      if (ending.region == nullptr || ending.region->offset != in.offset || ending.outstanding == 0) return true;
      ending.poisoned |= in.flags != 0;
      if (--ending.outstanding == 0) finish_free(ending);
      return true;
    }
    case WireKind::FreeObject: free_object(in.offset); return true;
    case WireKind::PublishAsk:
      if (in.argument < context_.shape.ranks) publish(in.offset, RankId{static_cast<uint16_t>(in.argument)});
      return true;
    case WireKind::Published: {
      RegionDescriptor* region = context_.regions.find(in.offset);
      if (region != nullptr && region->generation == in.generation) set_published(*region);
      return true;
    }
    case WireKind::Protocol:
    case WireKind::Barrier:
    case WireKind::BarrierGo: return false;
  }
  return false;
}

}  // namespace farpage::engine
