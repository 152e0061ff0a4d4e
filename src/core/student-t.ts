/** Student's t distribution, with degrees of freedom that need not be whole (Welch). Accurate to 1e-10 or better. */

/** Probability of a value at least as far from 0 as `t`, on either side. */
export function studentTail(t: number, degrees: number): number {
  return incompleteBeta(degrees / (degrees + t * t), degrees / 2);
}

/** The value that `share` of the values lie below. Bisection is enough here: nothing calls it in a loop. @param share from 0.5 to 1, without 1 */
export function studentQuantile(share: number, degrees: number): number {
  const tail = 2 * (1 - share);
  let [low, high] = [0, 1];
  while (studentTail(high, degrees) > tail) high *= 2;
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (studentTail(middle, degrees) > tail) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** The regularised incomplete beta function I_x(a, 1/2). */
function incompleteBeta(x: number, a: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const b = 0.5;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  // The fraction converges fast only below the mean.
  return x < (a + 1) / (a + b + 2) ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(1 - x, b, a)) / b;
}

/** Lentz's evaluation of the continued fraction (Abramowitz and Stegun 26.5.8). */
function betaFraction(x: number, a: number, b: number): number {
  const nonzero = (value: number) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / nonzero(1 - ((a + b) * x) / (a + 1));
  let f = d;
  for (let m = 1; m < 10_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let step = 1;
    for (const term of [even, odd]) {
      d = 1 / nonzero(1 + term * d);
      c = nonzero(1 + term / c);
      step = c * d;
      f *= step;
    }
    if (Math.abs(step - 1) < 1e-15) break;
  }
  return f;
}

/** Stirling's series from 10 on, reached by the recurrence. */
function logGamma(x: number): number {
  let [shifted, product] = [x, 1];
  while (shifted < 10) product *= shifted++;
  const inverse = 1 / shifted;
  const square = inverse * inverse;
  const series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))));
  return (shifted - 0.5) * Math.log(shifted) - shifted + 0.5 * Math.log(2 * Math.PI) + series - Math.log(product);
}
