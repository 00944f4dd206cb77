// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/cost/policy.hpp>
#include <cleave/mesh/mesh_value.hpp>
#include <cleave/type/element.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace cleave { inline namespace v0 {

/// How the devices along a mesh axis are wired.
enum class wiring : std::uint8_t {
  /// All pairs are equally far: a switch, or a fat tree without contention.
  crossbar,
  /// Each device has two neighbours. An all-to-all crosses a quarter of the ring on average.
  ring,
  /// `link::torus_axes` rings at right angles.
  torus,
};

/// The wires along one mesh axis.
struct link {
  /// Seconds of a message.
  double latency = 1e-6;
  /// Bytes a second that a device receives over all of its wires along the axis.
  double bandwidth = 1e10;
  wiring shape = wiring::crossbar;
  int torus_axes = 1;
  /// This many devices in a row have these wires (a node); devices further apart have the far ones. 0: all devices.
  std::int64_t near = 0;
  double far_latency = 0, far_bandwidth = 0;

  /// The same wires within groups of `devices`, and slower ones between the groups.
  constexpr link within(std::int64_t devices, double latency_between, double bandwidth_between) const {
    link both = *this;
    both.near = devices;
    both.far_latency = latency_between;
    both.far_bandwidth = bandwidth_between;
    return both;
  }
};

/// How kernels use tables of which an iteration of a loop reads one entry and adds to its gradient, and other sums that
/// a loop carries and does nothing else with.
enum class sums_in_loops : std::uint8_t {
  /// Passes copy the entry, and add to the whole table, as in Cleave.
  in_passes,
  /// The entry is read in place, and a pass adds to it alone.
  in_entries,
  /// Products also store their results in the entry of a layer, or add them to the sum.
  in_products,
};

/// A machine for which plans are priced in seconds: rates of one device, and the links along each mesh axis. A constant
/// of the program; start from one of `machines` and change it. Rates are those of data sheets; the efficiencies say
/// how much of them programs reach.
struct machine {
  std::string_view name{};
  /// Where the rates are published.
  std::string_view source{};
  /// Peak operations a second of products, by the size of an element in bytes: up to 2, 4, and 8.
  double flops_of_2 = 1e12, flops_of_4 = 1e12, flops_of_8 = 5e11;
  /// A product whose least extent is w on a device reaches `efficiency * w / (w + half_width)` of the peak; those of a
  /// batch, as of experts, with a half width of their own, if it is larger.
  double efficiency = 0.85, half_width = 0, half_width_of_batches = 0;
  /// Bytes a second of a device's memory, and the part of them that a pass reaches.
  double memory_bandwidth = 1e11, memory_efficiency = 0.8;
  /// Seconds to start a pass or a product.
  double launch = 0;
  /// Seconds in which a host starts a pass, a product or a collective, while the device works on earlier ones. If the
  /// host is slower than the device, the device waits.
  double issue = 0;
  /// Bytes of a device's memory.
  double memory = 0;
  /// Kernels that fuse attention: the values of scores stay on the chip if a head has at most this many features. 0:
  /// there are none, and scores go through memory.
  std::int64_t fused_features = 0;
  /// Whether these kernels have the products too. Otherwise they fuse a softmax alone: scores that products write and
  /// read go through memory.
  bool fused_products = true;
  /// The part of the peak that these kernels reach, of all operations that the program asks for: a kernel that leaves
  /// out masked blocks, or computes scores again for gradients, reaches more, or less. 0: that of other products.
  double fused_efficiency = 0;
  /// How kernels read weights of rounds, and add to their gradients.
  sums_in_loops sums = sums_in_loops::in_passes;
  /// Whether collectives that a plan starts early overlap with computation.
  bool overlaps = true;
  /// The link of axes that `links` does not name. Its `near` counts devices of the machine in the order of ranks: an
  /// axis has as many of them in a row as the axes behind it leave.
  link every_axis{};
  struct axis_link {
    std::string_view axis{};
    link wires{};
  };
  static_vector<axis_link, max_axes> links{};

  /// The same machine with other wires along one axis: `machines::a100.with(model, nvlink)`.
  template <class Axis>
  constexpr machine with(const Axis&, const link& wires) const {
    machine other = *this;
    other.links.push_back({Axis::info.name, wires});
    return other;
  }
  /// The same machine, if nothing overlaps with computation.
  constexpr machine without_overlap() const {
    machine other = *this;
    other.overlaps = false;
    return other;
  }
  /// The wires along an axis whose neighbours are so many ranks apart.
  constexpr link link_of(std::string_view axis, std::int64_t apart = 1) const {
    for (std::size_t i = links.size(); i-- > 0;)
      if (links[i].axis == axis) return links[i].wires;
    link wires = every_axis;
    if (wires.near > 0) wires.near = std::max<std::int64_t>(wires.near / apart, 1);
    return wires;
  }
  constexpr double peak(element e) const {
    return size_of(e) <= 2 ? flops_of_2 : size_of(e) <= 4 ? flops_of_4 : flops_of_8;
  }
  /// Operations a second of a product, or of a batch of them, whose least extent on a device is `width`.
  constexpr double product_rate(element e, double width, bool batch) const {
    return peak(e) * efficiency * width / (width + (batch ? std::max(half_width, half_width_of_batches) : half_width));
  }
  constexpr double memory_rate() const { return memory_bandwidth * memory_efficiency; }
};

/// The prices of a search for plans on a machine: its products at 16 bits, and the slowest of its links.
constexpr policy policy_of(const machine& m) {
  double latency = 0, bandwidth = 0;
  const auto add = [&](const link& l) {
    const double slowest = l.near == 0 ? l.bandwidth : std::min(l.bandwidth, l.far_bandwidth);
    latency = std::max({latency, l.latency, l.near == 0 ? 0 : l.far_latency});
    bandwidth = bandwidth == 0 ? slowest : std::min(bandwidth, slowest);
  };
  if (m.links.empty()) add(m.every_axis);
  for (const machine::axis_link& l : m.links) add(l.wires);
  policy p = policy::time(latency, bandwidth, m.flops_of_2 * m.efficiency);
  p.overlap = m.overlaps;
  return p;
}

/// Machines to start from. Rates are those of the sources. The efficiencies of TPU v3 and v4 and of A100 were chosen so
/// that the published runs of docs/25-machines-and-time.md fit best. The others were not compared: the runs on B200
/// there are predicted with rates that were measured of single kernels.
namespace machines {

/// A ring of TPU wires: `bytes` a second of a device over both neighbours.
constexpr link ici_ring(double bytes) { return {1e-6, bytes, wiring::ring}; }

/// One core of a TPU v3 (two of a chip): a 2-D torus, one ring for each mesh axis, of which each core has half. The
/// compiler fuses the softmax of attention.
inline constexpr machine tpu_v3{.name = "TPU v3 core",
                                .source = "Jouppi et al. 2020, A domain-specific supercomputer, CACM 63(7)",
                                .flops_of_2 = 61.5e12,
                                .flops_of_4 = 61.5e12 / 4,
                                .flops_of_8 = 61.5e12 / 64,
                                .efficiency = 0.95,
                                .half_width = 0,
                                .memory_bandwidth = 450e9,
                                .memory_efficiency = 0.6,
                                .launch = 20e-6,
                                .memory = 16.0 * (1 << 30),
                                .fused_features = 128,
                                .fused_products = false,
                                .overlaps = false,
                                .every_axis = {10e-6, 82e9, wiring::ring}};
/// One chip of a TPU v4: a 3-D torus. A mesh axis has the wires of two of its rings.
inline constexpr machine tpu_v4{.name = "TPU v4",
                                .source = "Jouppi et al. 2023, TPU v4, ISCA 2023",
                                .flops_of_2 = 275e12,
                                .flops_of_4 = 275e12 / 4,
                                .flops_of_8 = 275e12 / 64,
                                .efficiency = 0.85,
                                .half_width = 16,
                                .memory_bandwidth = 1200e9,
                                .launch = 2e-6,
                                .memory = 32.0 * (1 << 30),
                                .overlaps = false,
                                .every_axis = ici_ring(200e9)};
/// A TPU like the v4: `flops` of 16 bits, and bytes a second of its memory and of its wires along an axis.
constexpr machine tpu_like_v4(std::string_view name, std::string_view source, double flops, double memory_bandwidth,
                              double memory, double wires) {
  machine m = tpu_v4;
  m.name = name;
  m.source = source;
  m.flops_of_2 = flops;
  m.flops_of_4 = flops / 4;
  m.flops_of_8 = flops / 64;
  m.half_width = 32;
  m.memory_bandwidth = memory_bandwidth;
  m.memory = memory * (1 << 30);
  m.overlaps = true;
  m.every_axis = ici_ring(wires);
  return m;
}
/// One chip of a TPU v5e: a 2-D torus.
inline constexpr machine tpu_v5e = tpu_like_v4("TPU v5e", "Google Cloud documentation, TPU v5e", 197e12, 819e9, 16,
                                               90e9);
/// One chip of a TPU v5p: a 3-D torus.
inline constexpr machine tpu_v5p = tpu_like_v4("TPU v5p", "Google Cloud documentation, TPU v5p", 459e12, 2765e9, 95,
                                               180e9);
/// One chip of a TPU v6e: a 2-D torus.
inline constexpr machine tpu_v6e = tpu_like_v4("TPU v6e", "Google Cloud documentation, TPU v6e", 918e12, 1640e9, 32,
                                               180e9);

/// One GPU of a node of 8: `near` bytes a second within the node, `far` between nodes.
constexpr link gpu_node(double near, double far, std::int64_t devices = 8) {
  return link{10e-6, near}.within(devices, 20e-6, far);
}
/// One A100 (80 GB), nodes of 8 with NVLink 3 and one 200 Gb/s adapter for each GPU.
inline constexpr machine a100{.name = "A100",
                              .source = "NVIDIA A100 data sheet; DGX A100 white paper",
                              .flops_of_2 = 312e12,
                              .flops_of_4 = 156e12,
                              .flops_of_8 = 19.5e12,
                              .efficiency = 0.7,
                              .half_width = 0,
                              .memory_bandwidth = 2039e9,
                              .memory_efficiency = 0.9,
                              .launch = 5e-6,
                              .memory = 80e9,
                              .every_axis = gpu_node(230e9, 22e9)};
/// One H100 (SXM, 80 GB), nodes of 8 with NVLink 4 and one 400 Gb/s adapter for each GPU.
inline constexpr machine h100{.name = "H100",
                              .source = "NVIDIA H100 data sheet; DGX H100 white paper",
                              .flops_of_2 = 989e12,
                              .flops_of_4 = 494e12,
                              .flops_of_8 = 67e12,
                              .efficiency = 0.75,
                              .half_width = 64,
                              .memory_bandwidth = 3350e9,
                              .launch = 5e-6,
                              .memory = 80e9,
                              .every_axis = gpu_node(360e9, 45e9)};
/// One H200: an H100 with more and faster memory.
inline constexpr machine h200 = [] {
  machine m = h100;
  m.name = "H200";
  m.source = "NVIDIA H200 data sheet";
  m.memory_bandwidth = 4800e9;
  m.memory = 141e9;
  return m;
}();
/// One B200, nodes of 8 with NVLink 5 and one 400 Gb/s adapter for each GPU.
inline constexpr machine b200{.name = "B200",
                              .source = "NVIDIA DGX B200 data sheet",
                              .flops_of_2 = 2250e12,
                              .flops_of_4 = 1125e12,
                              .flops_of_8 = 40e12,
                              .efficiency = 0.75,
                              .half_width = 64,
                              .memory_bandwidth = 8000e9,
                              .launch = 5e-6,
                              .memory = 180e9,
                              .every_axis = gpu_node(720e9, 45e9)};
/// One GPU of a GB200 NVL72 rack.
inline constexpr machine gb200 = [] {
  machine m = b200;
  m.name = "GB200 NVL72";
  m.source = "NVIDIA GB200 NVL72 data sheet";
  m.flops_of_2 = 2500e12;
  m.flops_of_4 = 1250e12;
  m.memory = 186e9;
  m.every_axis = gpu_node(720e9, 45e9, 72);
  return m;
}();
/// One rank on a core of a cluster of CPUs: AVX2 at 2.5 GHz, nodes of 64 cores, 200 Gb/s for each node.
inline constexpr machine cpu_core{.name = "CPU core",
                                  .source = "AVX2 at 2.5 GHz: 2 x 8 multiply-adds of float a cycle",
                                  .flops_of_2 = 80e9,
                                  .flops_of_4 = 80e9,
                                  .flops_of_8 = 40e9,
                                  .efficiency = 0.85,
                                  .half_width = 4,
                                  .memory_bandwidth = 5e9,
                                  .launch = 1e-7,
                                  .memory = 4e9,
                                  .every_axis = link{1e-6, 4e9}.within(64, 2e-6, 0.4e9)};

} // namespace machines

}} // namespace cleave::v0
