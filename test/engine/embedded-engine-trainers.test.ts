import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import type { EngineTrainer, TrainerOptions } from '../../src/engine/training/trainer-types.ts';
import { someGradient } from '../contracts/gradient-cases.ts';
import { NANO_VOCABULARY, nanoRequest, openNano, result, trainerOptions } from './nano-requests.ts';
import { MemoryLimitError } from '../../src/engine/engine-errors.ts';

const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1, maxGradNorm: 0.5 };

/** Trainers as different as they can be, so that their activations lie at different addresses of the shared memory. */
const SETTINGS: readonly Partial<TrainerOptions>[] = [
  { rank: 4, alpha: 8, seed: 1 },
  { rank: 9, alpha: 4, seed: 2, checkpointing: true },
  { rank: 1, alpha: 16, seed: 3, targets: ['q_proj', 'down_proj'], memoryBytes: 2 ** 24 },
];

/** One to four sequences; the number decides their lengths and tokens. */
function batchOf(number: number) {
  const lengths = Array.from({ length: 1 + (number % 4) }, (_, i) => 2 + ((number * 31 + i * 57) % 90));
  const offsets = [0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((sum, length) => sum + length, 0))];
  const ids = Int32Array.from({ length: offsets.at(-1)! }, (_, i) => (i * 7919 + number * 131) % (NANO_VOCABULARY - 20));
  const targets = ids.map((_, i) => i).filter((place) => !offsets.includes(place) && (place + number) % 3 !== 0);
  const last = offsets.at(-1)! - 1;
  return { ids, offsets: Int32Array.from(offsets), targets: targets.includes(last) ? targets : Int32Array.of(...targets, last), temperature: 1 };
}

const CALLS = ['keep', 'keep', 'keep', 'back', 'back', 'back', 'drop', 'off', 'initial', 'step', 'step', 'clear', 'read', 'write', 'sample'] as const;
interface Call {
  readonly trainer: number;
  readonly kind: (typeof CALLS)[number];
  readonly number: number;
}

/** Carries calls out on one trainer and keeps all that it returns. */
class Recorder {
  readonly #engine: EmbeddedEngine;
  readonly #trainer: EngineTrainer;
  readonly #found: unknown[] = [];
  readonly #samples: Promise<unknown>[] = [];
  readonly #kept: { readonly id: number; readonly targets: number }[] = [];
  #hasGradient = false;
  #saved: ReturnType<EngineTrainer['read']>;

  constructor(engine: EmbeddedEngine, trainer: EngineTrainer) {
    this.#engine = engine;
    this.#trainer = trainer;
    this.#saved = trainer.read();
  }

  async call({ kind, number, trainer: name }: Call): Promise<void> {
    if (kind === 'keep' || kind === 'off' || kind === 'initial') await this.#forward(kind, number);
    else if (kind === 'back') await this.#backward(number);
    else if (kind === 'drop') await this.#drop(number);
    else if (kind === 'step') await this.#step();
    else if (kind === 'sample') await this.#sample(`${name}-${this.#samples.length}`, number);
    else if (kind === 'read') this.#found.push((this.#saved = this.#trainer.read()));
    else if (kind === 'clear') {
      await this.#trainer.zeroGrad();
      this.#hasGradient = false;
    } else {
      await this.#trainer.write(this.#saved);
      this.#release();
    }
  }

  async end(): Promise<unknown> {
    const samples = await Promise.all(this.#samples);
    return { found: this.#found, samples, state: this.#trainer.read() };
  }

  async #forward(kind: 'keep' | 'off' | 'initial', number: number): Promise<void> {
    const batch = batchOf(number);
    const retain = kind === 'keep';
    const { batch: id, ...numbers } = await this.#trainer.forward(batch, {
      adapter: kind === 'keep' ? 'on' : kind,
      retain,
      entropy: number % 2 === 0,
    });
    this.#found.push(numbers);
    if (retain) this.#kept.push({ id, targets: batch.targets.length });
  }

  async #backward(number: number): Promise<void> {
    const [batch] = this.#kept.splice(number % (this.#kept.length || 1), 1);
    if (batch === undefined) return;
    await this.#trainer.backward(batch.id, { dLogProbs: someGradient(batch.targets, number), dEntropy: null });
    this.#hasGradient = true;
  }

  async #drop(number: number): Promise<void> {
    const [batch] = this.#kept.splice(number % (this.#kept.length || 1), 1);
    if (batch !== undefined) await this.#trainer.drop(batch.id);
  }

  async #step(): Promise<void> {
    if (!this.#hasGradient) return;
    this.#found.push(await this.#trainer.step(ADAM));
    this.#release();
  }

  /** A copy that requests read while training goes on. */
  async #sample(name: string, number: number): Promise<void> {
    await this.#trainer.serve(name);
    this.#samples.push(this.#engine.generate(nanoRequest({ adapter: name, sampling: { ...nanoRequest().sampling, seed: number } })).then(result));
    this.#engine.unloadAdapter(name);
  }

  #release(): void {
    this.#hasGradient = false;
    this.#kept.length = 0;
  }
}

describe.each([1, 2])('trainers of one EmbeddedEngine on %i threads', { timeout: 120_000 }, (threads) => {
  let engine: EmbeddedEngine;
  let memoryBytes: number;
  beforeAll(async () => {
    engine = await openNano({ threads });
    ({ memoryBytes } = engine.stats());
  });
  afterAll(() => engine.close());

  const open = (settings: Partial<TrainerOptions>) => engine.createTrainer({ ...trainerOptions(), ...settings });
  const isEmptyAgain = () => vi.waitFor(() => expect(engine.stats().memoryBytes).toBe(memoryBytes));

  /** What each trainer gives alone on the engine. */
  async function eachAlone(calls: readonly Call[]): Promise<unknown[]> {
    const found: unknown[] = [];
    for (const [i, settings] of SETTINGS.entries()) {
      const trainer = await open(settings);
      const recorder = new Recorder(engine, trainer);
      for (const call of calls.filter((each) => each.trainer === i)) await recorder.call(call);
      found.push(await recorder.end());
      await trainer.close();
      await isEmptyAgain();
    }
    return found;
  }

  const call = fc.record({ trainer: fc.nat(SETTINGS.length - 1), kind: fc.constantFrom(...CALLS), number: fc.nat(200) });

  it('give what each gives alone, to the bit, however their calls interleave {one after another, and at once}', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 12, maxLength: 60, size: 'max' }), fc.boolean(), async (calls, atOnce) => {
        const alone = await eachAlone(calls);
        const trainers = await Promise.all(SETTINGS.map(open));
        const recorders = trainers.map((trainer) => new Recorder(engine, trainer));
        const queues = recorders.map(() => Promise.resolve());
        for (const each of calls) {
          queues[each.trainer] = queues[each.trainer]!.then(() => recorders[each.trainer]!.call(each));
          if (!atOnce) await queues[each.trainer];
        }
        await Promise.all(queues);
        expect(await Promise.all(recorders.map((recorder) => recorder.end()))).toEqual(alone);
        await Promise.all(trainers.map((trainer) => trainer.close()));
        await isEmptyAgain();
      }),
      { numRuns: 15 },
    );
  });

  it('give back their memory when they are closed, whatever the others retain', async () => {
    const first = await open(SETTINGS[0]!);
    const held = batchOf(3);
    const { batch } = await first.forward(held, { adapter: 'on', retain: true, entropy: false });
    const withOne = engine.stats().memoryBytes;
    const second = await open({ ...SETTINGS[1]!, memoryBytes: 2 ** 29 });
    const third = await open(SETTINGS[2]!);
    const long = Int32Array.from({ length: 2000 }, (_, i) => (i * 7919) % 1500);
    const large = { ids: long, offsets: Int32Array.of(0, 1000, 2000), targets: long.map((_, i) => i).filter((i) => i % 1000 !== 0), temperature: 1 };
    await second.forward(large, { adapter: 'on', retain: true, entropy: false });
    await expect(third.forward(large, { adapter: 'on', retain: true, entropy: false })).rejects.toBeInstanceOf(MemoryLimitError);
    expect(engine.stats().memoryBytes).toBeGreaterThan(withOne);
    await Promise.all([second.close(), third.close(), second.close()]);
    expect(engine.stats().memoryBytes).toBe(withOne);
    await expect(second.zeroGrad()).rejects.toThrow(/closed/);
    await first.backward(batch, { dLogProbs: someGradient(held.targets.length), dEntropy: null });
    const { gradNorm } = await first.step(ADAM);
    await first.close();
    expect(engine.stats().memoryBytes).toBe(memoryBytes);
    const alone = await open(SETTINGS[0]!);
    const again = await alone.forward(held, { adapter: 'on', retain: true, entropy: false });
    await alone.backward(again.batch, { dLogProbs: someGradient(held.targets.length), dEntropy: null });
    expect((await alone.step(ADAM)).gradNorm).toBe(gradNorm);
    await alone.close();
  });
});
