/** Converts numbers of a safetensors file to float32. */
import type { TensorDtype } from './safetensors.ts';

/** Converts the first `count` numbers of `bytes`, whose offset in its buffer is a multiple of 4. The conversion is exact for every type. */
export function toFloat32(bytes: Uint8Array, dtype: TensorDtype, out: Float32Array, count: number): void {
  if (dtype === 'F32') {
    out.set(new Float32Array(bytes.buffer, bytes.byteOffset, count));
    return;
  }
  const halves = new Uint16Array(bytes.buffer, bytes.byteOffset, count);
  const bits = new Uint32Array(out.buffer, out.byteOffset, count);
  if (dtype === 'BF16') {
    for (let i = 0; i < count; i++) bits[i] = halves[i]! << 16;
    return;
  }
  float16Bits ??= float16Table();
  for (let i = 0; i < count; i++) bits[i] = float16Bits[halves[i]!]!;
}

/** The float32 bits of every float16; built on first use. */
let float16Bits: Uint32Array | null = null;

function float16Table(): Uint32Array {
  const values = Float32Array.from({ length: 65536 }, (_, half) => {
    const [sign, exponent, fraction] = [half & 0x8000 ? -1 : 1, (half >> 10) & 31, half & 1023];
    if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
  return new Uint32Array(values.buffer);
}
