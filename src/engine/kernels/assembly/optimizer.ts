/** Gradient kernels of a training step. */
import { at, multiplyAdd, zero } from './vector';

export function sumOfSquares(x: usize, n: i32): f64 {
  let low = f64x2.splat(0), high = f64x2.splat(0);
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const v = v128.load(at(x, i));
    const a = f64x2.promote_low_f32x4(v), b = f64x2.promote_low_f32x4(v128.shuffle<f32>(v, v, 2, 3, 2, 3));
    low = f64x2.add(low, f64x2.mul(a, a));
    high = f64x2.add(high, f64x2.mul(b, b));
  }
  const lanes = f64x2.add(low, high);
  let sum = f64x2.extract_lane(lanes, 0) + f64x2.extract_lane(lanes, 1);
  for (; i < n; i++) {
    const v = <f64>load<f32>(at(x, i));
    sum += v * v;
  }
  return sum;
}

export function allFinite(x: usize, n: i32): i32 {
  // 0 · v is NaN for an infinity or a NaN, and a NaN stays in the sum.
  let sum = zero();
  let i = 0;
  for (; i + 4 <= n; i += 4) sum = f32x4.add(sum, f32x4.mul(zero(), v128.load(at(x, i))));
  for (; i < n; i++) sum = f32x4.add(sum, f32x4.mul(zero(), v128.load32_splat(at(x, i))));
  return i32x4.all_true(f32x4.eq(sum, zero())) ? 1 : 0;
}

/** Hyperparameters are float64, because 1 - beta2 of a float32 beta2 would be wrong in the fifth digit. */
export function adam(
  p: usize, g: usize, m: usize, v: usize, n: i32, scale: f64, learningRate: f64, beta1: f64, beta2: f64, epsilon: f64, weightDecay: f64,
  correction1: f64, correction2: f64,
): void {
  const keep1 = f32x4.splat(<f32>beta1), keep2 = f32x4.splat(<f32>beta2);
  const take1 = f32x4.splat(<f32>(1 - beta1)), take2 = f32x4.splat(<f32>(1 - beta2));
  const step = f32x4.splat(<f32>(-learningRate / correction1));
  const rootCorrection = f32x4.splat(<f32>(1 / sqrt<f64>(correction2)));
  const shrink = f32x4.splat(<f32>(1 - learningRate * weightDecay));
  const scales = f32x4.splat(<f32>scale), floor = f32x4.splat(<f32>epsilon);
  for (let i = 0; i < n; i += 4) {
    const gradient = f32x4.mul(scales, v128.load(at(g, i)));
    const first = multiplyAdd(take1, gradient, f32x4.mul(keep1, v128.load(at(m, i))));
    const second = multiplyAdd(take2, f32x4.mul(gradient, gradient), f32x4.mul(keep2, v128.load(at(v, i))));
    v128.store(at(m, i), first);
    v128.store(at(v, i), second);
    const root = multiplyAdd(f32x4.sqrt(second), rootCorrection, floor);
    v128.store(at(p, i), multiplyAdd(step, f32x4.div(first, root), f32x4.mul(shrink, v128.load(at(p, i)))));
  }
}
