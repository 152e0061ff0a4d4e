/** Stored weights: float32, or bfloat16, the upper half of a float32. Kernels take the type as `W`. Widening is exact, so both types give the same bits. */

export type bf16 = u16;

/** The address of the `index`-th weight. */
@inline
export function weightAt<W>(pointer: usize, index: i32): usize {
  return pointer + (<usize>index << alignof<W>());
}

/** Weights 0 to 3 of the 8 at `pointer`, as float32. */
@inline
export function lower<W>(pointer: usize): v128 {
  return isFloat<W>() ? v128.load(pointer) : i32x4.shl(v128.load_ext<u16>(pointer), 16);
}

/** Weights 4 to 7. */
@inline
export function upper<W>(pointer: usize): v128 {
  return isFloat<W>() ? v128.load(pointer, 16) : i32x4.shl(v128.load_ext<u16>(pointer, 8), 16);
}

/** The weight at `pointer`, as float32. */
@inline
export function widened<W>(pointer: usize): f32 {
  return isFloat<W>() ? load<f32>(pointer) : reinterpret<f32>(<u32>load<u16>(pointer) << 16);
}

/** Stores a number that the type represents exactly. */
@inline
export function narrow<W>(pointer: usize, value: f32): void {
  if (isFloat<W>()) store<f32>(pointer, value);
  else store<u16>(pointer, <u16>(reinterpret<u32>(value) >> 16));
}
