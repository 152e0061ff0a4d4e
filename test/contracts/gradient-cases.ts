/** Batches and readings that the gradient backend's contract is checked with. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import type { GradientBackend, PackedBatch, PackedImage } from '../../src/trainer/gradient-backend.ts';
import type { AdamOptions } from '../../src/core/adam-options.ts';

export interface GradientCase {
  /** A PEFT directory; null for the base alone. */
  readonly adapter: string | null;
  readonly batch: PackedBatch;
  readonly dLogProbs?: Float32Array;
  readonly dEntropy?: Float32Array;
  /** So many steps of Adam on the gradient of this case. */
  readonly adam?: AdamOptions & { readonly steps: number };
}

/** What an independent implementation finds for a case. Tensors by PEFT's names, row after row. */
export interface GradientReference {
  readonly log_probs: readonly number[];
  readonly entropy: readonly number[];
  readonly gradient?: Tensors;
  readonly parameters?: Tensors;
  readonly norms?: readonly number[];
}

export type Tensors = Readonly<Record<string, ArrayLike<number>>>;

/** Images that a backend with a vision-language base can read, and the id that stands at each of their tokens. */
export interface TestedImages {
  readonly pad: number;
  readonly images: readonly Pick<PackedImage, 'sha256' | 'length'>[];
}

/** Three sequences of 17, 1 and 9 tokens; seven targets, the first and last places that can be one among them. */
export function smallBatch(vocabularySize: number, temperature = 1): PackedBatch {
  const ids = Int32Array.from({ length: 27 }, (_, i) => (i * i * 131 + 7 * i + 3) % vocabularySize);
  return { ids, offsets: Int32Array.of(0, 17, 18, 27), targets: Int32Array.of(1, 2, 5, 16, 19, 22, 26), temperature };
}

/** Puts images before tokens of a batch that has none, by the tokens' indices. */
function withImages(
  batch: PackedBatch,
  { pad, images }: TestedImages,
  places: readonly { readonly at: number; readonly image: number }[],
): PackedBatch {
  // The last place first, so that the indices before it stay.
  return places.toSorted((a, b) => b.at - a.at).reduce((of, { at, image }) => withImage(of, at, images[image % images.length]!, pad), batch);
}

function withImage(batch: PackedBatch, at: number, image: TestedImages['images'][number], pad: number): PackedBatch {
  const { ids, offsets, targets, images = [] } = batch;
  const { length } = image;
  const behind = (place: number) => place + length;
  const sequence = offsets.findLastIndex((start) => start <= at);
  return {
    ...batch,
    ids: Int32Array.of(...ids.subarray(0, at), ...new Int32Array(length).fill(pad), ...ids.subarray(at)),
    offsets: offsets.map((start) => (start > at ? behind(start) : start)),
    targets: targets.map((target) => (target >= at ? behind(target) : target)),
    images: [{ ...image, sequence, offset: at }, ...images.map((other) => ({ ...other, offset: behind(other.offset) }))],
  };
}

/** `smallBatch` with four images in its first and last sequence, one of them twice. */
export function picturedBatch(vocabularySize: number, images: TestedImages, temperature = 1): PackedBatch {
  const places = [4, 12, 20, 23].map((at, image) => ({ at, image: image === 3 ? 0 : image }));
  return withImages(smallBatch(vocabularySize, temperature), images, places);
}

/** As `batches`, with up to three images anywhere in them, also side by side. */
export function picturedBatches(vocabularySize: number, images: TestedImages): fc.Arbitrary<PackedBatch> {
  const place = fc.record({ at: fc.nat(1000), image: fc.nat(images.images.length - 1) });
  return fc.tuple(batches(vocabularySize), fc.array(place, { maxLength: 3 })).map(([batch, places]) =>
    withImages(
      batch,
      images,
      places.map(({ at, image }) => ({ at: at % batch.ids.length, image })),
    ),
  );
}

/** One to four sequences of 1 to 12 tokens with at least one target. */
export function batches(vocabularySize: number): fc.Arbitrary<PackedBatch> {
  const id = fc.nat(vocabularySize - 1);
  const sequence = fc.array(fc.record({ id, wanted: fc.boolean() }), { minLength: 1, maxLength: 12 });
  const first = fc.array(fc.record({ id, wanted: fc.constant(true) }), { minLength: 2, maxLength: 12 });
  return fc
    .record({ first, rest: fc.array(sequence, { maxLength: 3 }), temperature: fc.constantFrom(0.7, 1, 1.3) })
    .map(({ first: one, rest, temperature }) => {
      const all = [one, ...rest];
      const starts = all.map((_, i) => all.slice(0, i).reduce((sum, { length }) => sum + length, 0));
      const targets = all.flatMap((tokens, i) => tokens.flatMap(({ wanted }, j) => (wanted && j > 0 ? [starts[i]! + j] : [])));
      const ids = Int32Array.from(all.flatMap((tokens) => tokens.map((token) => token.id)));
      return { ids, offsets: Int32Array.of(...starts, ids.length), targets: Int32Array.from(targets), temperature };
    });
}

/** The sequences of a batch that hold a target, each as a batch of its own. */
export function unpack({ ids, offsets, targets, temperature, images = [] }: PackedBatch): PackedBatch[] {
  return Array.from(offsets.subarray(1), (end, i) => {
    const start = offsets[i]!;
    const own = targets.filter((target) => start <= target && target < end).map((target) => target - start);
    const seen = images.filter(({ sequence }) => sequence === i).map((image) => ({ ...image, sequence: 0, offset: image.offset - start }));
    const alone = { ids: ids.slice(start, end), offsets: Int32Array.of(0, end - start), targets: own, temperature };
    return seen.length === 0 ? alone : { ...alone, images: seen };
  }).filter((batch) => batch.targets.length > 0);
}

/** Gradients for `count` targets, of both signs and some 0. */
export function someGradient(count: number, phase = 0): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => Math.round(8 * Math.sin(1.7 * i + phase)) / 8);
}

/** θ becomes θ - SCALE · gradient, up to one part in 10^8: Adam without memory whose epsilon outweighs every gradient. */
const SCALE = 1e6;
const READING: AdamOptions = { learningRate: SCALE * 1e10, beta1: 0, beta2: 0, epsilon: 1e10, weightDecay: 0, maxGradNorm: null };

/** The accumulated gradient, which the interface does not show: what a step of known size moved. Uses it up and moves the adapter. */
export async function readGradient(backend: GradientBackend, folder: () => string): Promise<Tensors> {
  const before = readAdapter((await backend.saveAdapter(folder())).directory);
  await backend.optimStep(READING);
  const after = readAdapter((await backend.saveAdapter(folder())).directory);
  return Object.fromEntries(Object.entries(before).map(([name, old]) => [name, Float64Array.from(old, (x, i) => (x - after[name]![i]!) / SCALE)]));
}

/** The float32 tensors of a PEFT directory. */
export function readAdapter(directory: string): Record<string, Float32Array> {
  const bytes = readFileSync(join(directory, 'adapter_model.safetensors'));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<string, { dtype: string; data_offsets: [number, number] }>;
  const tensors = Object.entries(header).filter(([name]) => name !== '__metadata__');
  return Object.fromEntries(
    tensors.map(
      ([
        name,
        {
          dtype,
          data_offsets: [from, to],
        },
      ]) => {
        if (dtype !== 'F32') throw new Error(`Expected float32 in ${name}, got ${dtype}`);
        return [name, new Float32Array(new Uint8Array(bytes.subarray(start + from, start + to)).buffer)];
      },
    ),
  );
}

/** |a - b| / |b| over all tensors together (Euclidean). */
export function distance(a: Tensors, b: Tensors): number {
  let [difference, norm] = [0, 0];
  for (const [name, values] of Object.entries(b)) {
    for (let i = 0; i < values.length; i += 1) {
      difference += (a[name]![i]! - values[i]!) ** 2;
      norm += values[i]! ** 2;
    }
  }
  return Math.sqrt(difference / norm);
}

export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  return Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)), a.length === b.length ? 0 : Infinity);
}
