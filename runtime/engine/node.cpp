#include "runtime/engine/node.hpp"

#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/lane.hpp"
#include "runtime/memory/domain_channel.hpp"
#include "runtime/memory/limits.hpp"
#include "runtime/memory/plain_page_tables.hpp"
#include "transport/ucx_transport.hpp"

namespace farpage::engine {
namespace {

using memory::Range;
using memory::RegionDescriptor;
using memory::RegionState;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Machines are told apart by their boot, so that two containers of one host that share a name are one host.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  utsname names{};
  ::uname(&names);
  return boot + "/" + names.nodename;
}

template <class T>
T value_of(const std::vector<std::byte>& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

class NodeImpl final : public Node {
 public:
  NodeImpl(const Options& options, transport::Bootstrap& bootstrap) : options_(options), bootstrap_(bootstrap) {}

  Result<> open();
  Result<> close() override;

  const Options& options() const override { return options_; }
  const JobShape& shape() const override { return shape_; }
  const memory::Window& window() const override { return *window_; }
  const memory::StateSegment& segment() const override { return *segment_; }
  const memory::RegionTable& regions() const override { return *regions_; }
  const memory::FaultMechanism& mechanism() const override { return mechanism_; }
  int fault_descriptor() const override { return own_fault_descriptor_.get(); }
  int leader_connection() const override { return member_ ? member_->connection.get() : -1; }
  int32_t leader_pid() const override { return member_ ? member_->leader_pid : 0; }

  Range arena(RankId rank) const override { return {rank.value * arena_bytes(), arena_bytes()}; }
  RankId arena_owner(WindowOffset at) const override {
    const uint64_t rank = at / arena_bytes();
    return rank < shape_.ranks ? RankId{static_cast<uint16_t>(rank)} : kNoRank;
  }

  Result<RegionDescriptor*> resolve(WindowOffset at) override;
  Result<RegionDescriptor*> create_region(const RegionDescriptor& descriptor) override;
  Result<> free_region(WindowOffset region) override { return call(CallOp::FreeRegion, region, 0); }
  Result<> free_object(WindowOffset object) override { return call(CallOp::FreeObject, object, 0); }
  Result<> publish(WindowOffset region) override;
  Result<> prefetch(Range range) override { return port_->post(CallOp::Prefetch, range.offset, range.bytes); }
  Result<> domain_barrier() override { return call(CallOp::Barrier, 0, 0); }

  std::vector<transport::PeerInfo> peers() const override {
    return transport_ ? transport_->peers() : std::vector<transport::PeerInfo>{};
  }
  std::string transport_text() const override { return transport_ ? transport_->version_text() : ""; }

 private:
  uint64_t arena_bytes() const { return round_down(window_->bytes() / 2 / shape_.ranks, kRunBytes); }
  Result<> call(CallOp op, uint64_t offset, uint64_t bytes) const {
    return port_->call(op, offset, bytes, options_.fault_timeout);
  }
  Result<> agree(const Result<>& mine, const char* step);
  Result<memory::WindowChoice> choose_window();
  Result<> open_leader(const memory::SegmentParameters& parameters, memory::WindowChoice choice);
  Result<> open_member(const memory::SegmentParameters& parameters, memory::WindowChoice choice);
  Result<> open_transport(uint64_t job_id);
  Result<> set_home_limit();
  Result<> start_lane();

  const Options options_;
  transport::Bootstrap& bootstrap_;
  JobShape shape_;
  memory::FaultMechanism mechanism_;
  Fd window_file_, doorbell_;
  std::optional<memory::StateSegment> segment_;
  std::optional<memory::RegionTable> regions_;
  std::optional<memory::Window> window_;
  Fd own_fault_descriptor_;
  std::unique_ptr<transport::UcxTransport> transport_;
  std::optional<memory::DomainListener> listener_;
  std::vector<memory::DomainListener::Member> members_;
  std::optional<memory::DomainMember> member_;
  std::unique_ptr<memory::PageTables> pages_;
  SteadyClock clock_;
  std::unique_ptr<Lane> lane_;
  std::optional<CallPort> port_;
};

// Every rank learns how the step went everywhere; a failure anywhere is a failure for all, with the first failing rank's text.
Result<> NodeImpl::agree(const Result<>& mine, const char* step) {
  std::string text;
  if (!mine.ok()) text = fmt::format("{} {}", static_cast<int>(mine.status()), mine.failure().message);
  auto all = bootstrap_.all_gather(bytes_of(text));
  if (!all.ok()) return all.failure();
  for (size_t rank = 0; rank < all->size(); rank++) {
    const std::string failure = text_of((*all)[rank]);
    if (failure.empty()) continue;
    const auto status = static_cast<Status>(std::atoi(failure.c_str()));
    const std::string message = failure.substr(failure.find(' ') + 1);
    return Error{status, RankId{static_cast<uint16_t>(rank)} == shape_.rank ? message
                                                                          : fmt::format("rank {}: {}: {}", rank, step, message)};
  }
  return success();
}

Result<memory::WindowChoice> NodeImpl::choose_window() {
  auto candidates = memory::window_candidates(options_.window);
  uint64_t mask = candidates.ok() ? memory::probe_windows(*candidates) : 0;
  auto all = bootstrap_.all_gather(std::as_bytes(std::span(&mask, 1)));
  if (!all.ok()) return all.failure();
  if (!candidates.ok()) return candidates.failure();
  uint64_t common = ~uint64_t{0};
  for (const auto& bytes : *all) common &= value_of<uint64_t>(bytes);
  if (common == 0)
    return error(Status::OutOfMemory,
                 "no window of addresses is free in all ranks (tried {} places{}; set DSM_WINDOW, or raise the address space "
                 "limit)",
                 candidates->size(), options_.window == "auto" ? "" : fmt::format(", DSM_WINDOW={}", options_.window));
  return (*candidates)[static_cast<size_t>(__builtin_ctzll(common))];
}

Result<> NodeImpl::open_leader(const memory::SegmentParameters& parameters, memory::WindowChoice choice) {
  DSM_ASSIGN(window_file_, memory::create_window_file(choice.bytes));
  doorbell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_) return error(Status::Internal, "eventfd: {}", std::strerror(errno));
  DSM_ASSIGN(auto segment, memory::StateSegment::create(parameters));
  segment_.emplace(std::move(segment));
  if (shape_.ranks_here > 1) {
    DSM_ASSIGN(auto listener, memory::DomainListener::open(parameters.job_id, shape_.domain.value));
    listener_.emplace(std::move(listener));
  }
  DSM_ASSIGN(auto window, memory::Window::map(choice, window_file_.get()));
  window_.emplace(std::move(window));
  return success();
}

Result<> NodeImpl::open_member(const memory::SegmentParameters& parameters, memory::WindowChoice choice) {
  DSM_ASSIGN(auto member, memory::DomainMember::join(parameters.job_id, shape_.domain.value, shape_.slot, options_.init_timeout));
  member_.emplace(std::move(member));
  doorbell_ = std::move(member_->doorbell);
  DSM_ASSIGN(auto segment, memory::StateSegment::attach(std::move(member_->state_segment), parameters));
  segment_.emplace(std::move(segment));
  DSM_ASSIGN(auto window, memory::Window::map(choice, member_->window_file.get()));
  window_.emplace(std::move(window));
  return success();
}

Result<> NodeImpl::open_transport(uint64_t job_id) {
  if (shape_.domains == 1) return success();
  Result<> created = success();
  std::vector<std::byte> address;
  if (shape_.leader()) {
    transport::UcxParameters parameters;
    parameters.self = shape_.domain;
    parameters.agents = shape_.domains;
    parameters.job_id = job_id;
    parameters.path = options_.transport == "shm"   ? transport::UcxParameters::Path::Shm
                      : options_.transport == "tcp" ? transport::UcxParameters::Path::Tcp
                                                    : transport::UcxParameters::Path::Auto;
    parameters.net_device = options_.net_device;
    for (const uint32_t host : shape_.host_of_domain)
      parameters.same_host.push_back(host == shape_.host_of_domain[shape_.domain.value]);
    parameters.connect_timeout_ms = options_.init_timeout;
    auto transport = transport::UcxTransport::create(parameters);
    if (transport.ok()) {
      transport_ = std::move(transport).value();
      address = transport_->address();
    } else {
      created = transport.failure();
    }
  }
  auto gathered = bootstrap_.all_gather(address);
  if (!gathered.ok()) return gathered.failure();
  DSM_TRY(agree(created, "transport"));
  Result<> connected = success();
  if (shape_.leader()) {
    std::vector<std::vector<std::byte>> addresses(shape_.domains);
    for (uint32_t domain = 0; domain < shape_.domains; domain++)
      addresses[domain] = std::move((*gathered)[shape_.leader_of[domain].value]);
    connected = transport_->connect(addresses);
  }
  return agree(connected, "connect");
}

// What the memory limit leaves for home memory beside the caches of all domains of this host.
Result<> NodeImpl::set_home_limit() {
  uint64_t domains_here = 0;
  for (const uint32_t host : shape_.host_of_domain) domains_here += host == shape_.host_of_domain[shape_.domain.value];
  const uint64_t limit = memory::memory_limit_bytes();
  const uint64_t cache = shape_.domains == 1 ? 0 : options_.cache_bytes;
  if (cache + options_.home_bytes > limit / domains_here)
    return error(Status::OutOfMemory,
                 "DSM_CACHE_BYTES={} and DSM_HOME_BYTES={} of {} domains on this host exceed its memory limit of {} bytes", cache,
                 options_.home_bytes, domains_here, limit);
  const uint64_t rest = limit / domains_here - cache;
  segment_->header().home_bytes_limit = options_.home_bytes != 0 ? options_.home_bytes : rest / 16 * 15;
  return success();
}

Result<> NodeImpl::start_lane() {
  std::vector<Lane::Member> members;
  if (mechanism_.full_userfaultfd) {
    DSM_ASSIGN(pages_, memory::make_uffd_page_tables(window_file_.get(), window_->base(), window_->bytes()));
    // Our own descriptor stays open for the watchdog; the lane works on a duplicate.
    pages_->add_rank(0, Fd(::dup(own_fault_descriptor_.get())));
    for (auto& member : members_) {
      DSM_ASSIGN(Fd descriptor, memory::DomainListener::receive_fault_descriptor(member, options_.init_timeout));
      pages_->add_rank(member.slot, std::move(descriptor));
    }
  } else {
    pages_ = memory::make_plain_page_tables(window_file_.get());
  }
  members.push_back({0, -1});
  for (const auto& member : members_) members.push_back({member.slot, member.connection.get()});
  const LaneContext context{options_, shape_, *segment_, *regions_, *pages_, transport_.get(), clock_, arena_bytes()};
  lane_ = std::make_unique<Lane>(context, doorbell_.get(), std::move(members));
  return lane_->start();
}

Result<> NodeImpl::open() {
  const std::string host = host_identity();
  auto hosts = bootstrap_.all_gather(bytes_of(host));
  if (!hosts.ok()) return hosts.failure();
  std::vector<std::string> host_names;
  for (const auto& bytes : *hosts) host_names.push_back(text_of(bytes));
  DSM_ASSIGN(shape_, make_job_shape(bootstrap_.rank(), host_names, options_.domain));

  uint64_t job_id = 0;
  if (shape_.rank == RankId{0}) job_id = uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  auto ids = bootstrap_.all_gather(std::as_bytes(std::span(&job_id, 1)));
  if (!ids.ok()) return ids.failure();
  job_id = value_of<uint64_t>((*ids)[0]);

  mechanism_ = memory::probe_fault_mechanism();
  Result<> usable = success();
  if (!mechanism_.full_userfaultfd && shape_.domains > 1)
    usable = error(Status::Unsupported,
                   "{} domains need full userfaultfd, which this process cannot have: {} (run as root, or set "
                   "vm.unprivileged_userfaultfd=1; one domain, DSM_DOMAIN=host on one machine, runs without it)",
                   shape_.domains, mechanism_.description);
  DSM_TRY(agree(usable, "page faults"));
  if (!mechanism_.full_userfaultfd && shape_.leader())
    log_warn("running without userfaultfd ({}): stray accesses to global memory are not caught", mechanism_.description);

  DSM_ASSIGN(const memory::WindowChoice choice, choose_window());
  memory::SegmentParameters parameters{choice.bytes, options_.cache_bytes, shape_.ranks_here, job_id};
  DSM_TRY(agree(shape_.leader() ? open_leader(parameters, choice) : success(), "domain"));
  // The leader hands out descriptors while its members ask for them.
  Result<> joined = success();
  if (!shape_.leader()) {
    joined = open_member(parameters, choice);
  } else if (shape_.ranks_here > 1) {
    auto accepted = listener_->accept_members(shape_.ranks_here - 1, {window_file_.get(), segment_->fd(), doorbell_.get()},
                                              options_.init_timeout);
    if (accepted.ok())
      members_ = std::move(accepted).value();
    else
      joined = accepted.failure();
  }
  DSM_TRY(agree(joined, "joining the domain"));
  regions_.emplace(*segment_);
  segment_->header().pids[shape_.slot] = ::getpid();
  port_.emplace(*segment_, doorbell_.get(), shape_.slot);

  Result<> limited = shape_.leader() ? set_home_limit() : success();
  Result<> described = success();
  if (mechanism_.full_userfaultfd) {
    auto descriptor = memory::open_fault_descriptor(window_->base(), window_->bytes());
    if (descriptor.ok()) {
      own_fault_descriptor_ = std::move(descriptor).value();
      if (member_) described = member_->send_fault_descriptor(own_fault_descriptor_.get());
    } else {
      described = descriptor.failure();
    }
  }
  DSM_TRY(agree(limited.ok() ? described : limited, "memory"));
  DSM_TRY(open_transport(job_id));
  return agree(shape_.leader() ? start_lane() : success(), "lane");
}

Result<> NodeImpl::close() {
  // Nobody needs anybody any more: all ranks have come here.
  const Result<> met = bootstrap_.barrier();
  window_->forbid();
  if (lane_) lane_->stop();
  const Result<> left = bootstrap_.barrier();
  lane_.reset();
  pages_.reset();
  transport_.reset();
  own_fault_descriptor_.reset();
  return met.ok() ? left : met;
}

Result<RegionDescriptor*> NodeImpl::resolve(WindowOffset at) {
  for (int attempt = 0; attempt < 2; attempt++) {
    if (RegionDescriptor* region = regions_->find(at)) {
      if (region->state == RegionState::Freeing) return error(Status::Freed, "the region at 0x{:x} is being freed", region->offset);
      if (!region->contains(at))
        return error(Status::OutOfRange, "address is {} bytes past the end of the region at offset 0x{:x} ({} bytes)",
                     at - region->offset - region->bytes, region->offset, region->bytes);
      return region;
    }
    if (attempt == 0) DSM_TRY(call(CallOp::Resolve, at, 0));
  }
  return error(Status::OutOfRange, "no region at offset 0x{:x}", at);
}

Result<RegionDescriptor*> NodeImpl::create_region(const RegionDescriptor& descriptor) {
  const uint64_t here = home_bytes_in(descriptor, shape_.domain, shape_);
  DSM_TRY(reserve_home_bytes(*segment_, shape_.domain, here));
  auto inserted = regions_->insert(descriptor);
  if (!inserted.ok()) {
    counters().sub(Counter::home_bytes, here);
    return inserted.failure();
  }
  const uint64_t others = home_domains(descriptor, shape_) & ~(uint64_t{1} << shape_.domain.value);
  if (others == 0) return *inserted;
  const Result<> created = call(CallOp::CreateRegion, descriptor.offset, 0);
  if (created.ok()) return *inserted;
  (void)free_region(descriptor.offset);  // takes it back from the domains that had accepted
  return created.failure();
}

Result<> NodeImpl::publish(WindowOffset region) { return call(CallOp::Publish, region, 0); }

}  // namespace

Result<std::unique_ptr<Node>> Node::open(const Options& options, transport::Bootstrap& bootstrap) {
  auto node = std::make_unique<NodeImpl>(options, bootstrap);
  DSM_TRY(node->open());
  return std::unique_ptr<Node>(std::move(node));
}

}  // namespace farpage::engine
