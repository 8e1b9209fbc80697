#!/bin/sh
# The PTX that is checked in is what clang makes of the kernels' source.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

if ! "$SOURCE/tools/ptx" src/device/kernel/gpu_kernels >"$TAP/ptx" 2>"$TAP/err"; then
    # CI is the place where nothing may be missing.
    [ "${CI-}" = true ] || skip_all "no clang 14 here, which makes PTX"
fi
ok "the PTX is that of the source; else: tools/ptx --update" cmp "$TAP/ptx" "$SOURCE/src/device/kernel/gpu_kernels.ptx"
for kernel in arith_fp32 arith_tf32 arith_bf16 arith_fp16 arith_int8 memory_fill memory_compare; do
    has "it has the kernel $kernel" "\.visible \.entry $kernel\(" "$TAP/ptx"
done
for shape in m16n8k8.row.col.f32.tf32.tf32.f32 m16n8k16.row.col.f32.bf16.bf16.f32 m16n8k16.row.col.f32.f16.f16.f32 \
    m16n8k32.row.col.s32.s8.s8.s32; do
    has "tensor cores compute $shape" "mma\.sync\.aligned\.$shape" "$TAP/ptx"
done
has "single numbers are fused" 'fma\.rn\.f32' "$TAP/ptx"
has "the SM is read" '%smid' "$TAP/ptx"
lacks "sums stay in registers" '\.local' "$TAP/ptx"
"$SOURCE/tools/ptx" src/device/cuda/stamp_kernel >"$TAP/stamp" 2>"$TAP/err"
ok "so is that of the stamps" cmp "$TAP/stamp" "$SOURCE/src/device/cuda/stamp_kernel.ptx"
has "a stamp is the device's own clock" '%globaltimer' "$TAP/stamp"
done_testing
