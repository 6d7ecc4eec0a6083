#pragma once

// Tables that PyTorch 2.13 wrote of its schedules: torch.distributed.pipelining, `_dump_csv(file, "compute_only")`.

namespace adjoin::test {

/// Interleaved1F1B, two stages a rank: 4 ranks, 8 micro-batches.
inline constexpr const char* kInterleaved1F1B =
    "0F0,0F1,0F2,0F3,4F0,4F1,4F2,4F3,0F4,0F5,,,,,0F6,4B0,0F7,4B1,4F4,4B2,4F5,4B3,4F6,0B0,4F7,0B1,,0B2,,"
    "0B3,,4B4,,4B5,,4B6,,4B7,,0B4,,0B5,,0B6,,0B7\r\n"
    ",1F0,1F1,1F2,1F3,5F0,5F1,5F2,5F3,,,,1F4,5B0,1F5,5B1,1F6,5B2,1F7,5B3,5F4,1B0,5F5,1B1,5F6,1B2,5F7,1B3,"
    ",5B4,,5B5,,5B6,,5B7,,1B4,,1B5,,1B6,,1B7\r\n"
    ",,2F0,2F1,2F2,2F3,6F0,6F1,,,6F2,6B0,6F3,6B1,2F4,6B2,2F5,6B3,2F6,2B0,2F7,2B1,6F4,2B2,6F5,2B3,6F6,6B4,"
    "6F7,6B5,,6B6,,6B7,,2B4,,2B5,,2B6,,2B7\r\n"
    ",,,3F0,3F1,3F2,3F3,,7F0,7B0,7F1,7B1,7F2,7B2,7F3,7B3,3F4,3B0,3F5,3B1,3F6,3B2,3F7,3B3,7F4,7B4,7F5,7B5,"
    "7F6,7B6,7F7,7B7,,3B4,,3B5,,3B6,,3B7\r\n";

/// InterleavedZeroBubble, two stages a rank: 2 ranks, 4 micro-batches.
inline constexpr const char* kInterleavedZeroBubble =
    "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,0W3\r\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,1W3\r\n";

/// ZBVZeroBubble: 2 ranks, 4 micro-batches.
inline constexpr const char* kZBVZeroBubble =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3\r\n"
    ",1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,1W2,2W3,1W3\r\n";

/// DualPipeV: 2 ranks, 4 micro-batches.
inline constexpr const char* kDualPipeV =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,"
    "0I2,0W2,0I3,0W3\r\n"
    "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,"
    "1I3,2W3,1W3\r\n";

}  // namespace adjoin::test
