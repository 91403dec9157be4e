// Copies of IMMUTABLE blocks: no directory, no recalls. A domain asks the home once, keeps the copy as long as it has room,
// and drops it without a word. Pure.
#pragma once

#include "runtime/coherence/agent.hpp"

namespace farpage::coherence {

enum class ImmutableEvent : uint8_t { Read, Data, Evict };
enum class ImmutableAction : uint8_t { Map, Wait, WaitAndAsk, Install, Drop, Refuse };

struct ImmutableStep {
  AgentState next;
  ImmutableAction action;
};

/// I: no copy, IS: asked for, S: here. Refuse: the event cannot be meant (bytes nobody asked for, a frame that is not here).
constexpr ImmutableStep step_immutable(AgentState state, ImmutableEvent event) {
  switch (event) {
    case ImmutableEvent::Read:
      if (state == AgentState::S) return {AgentState::S, ImmutableAction::Map};
      if (state == AgentState::IS) return {AgentState::IS, ImmutableAction::Wait};
      return {AgentState::IS, ImmutableAction::WaitAndAsk};
    case ImmutableEvent::Data:
      if (state == AgentState::IS) return {AgentState::S, ImmutableAction::Install};
      return {state, ImmutableAction::Refuse};
    case ImmutableEvent::Evict:
      if (state == AgentState::S) return {AgentState::I, ImmutableAction::Drop};
      return {state, ImmutableAction::Refuse};
  }
  return {state, ImmutableAction::Refuse};
}

}  // namespace farpage::coherence
