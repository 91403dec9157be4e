// Handle<T, Destroy>: the one owner of a C object, one pointer wide. Fd: the same for a file descriptor.
// Declare members in birth order; destruction runs backwards.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace farpage {

template <auto Destroy>
struct DestroyWith {
  template <class T>
  void operator()(T* object) const noexcept {
    (void)Destroy(object);
  }
};

template <class T, auto Destroy>
using Handle = std::unique_ptr<T, DestroyWith<Destroy>>;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace farpage
