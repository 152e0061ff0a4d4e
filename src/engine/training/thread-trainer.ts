/** A compute thread's part of the training: passes over its share of a batch, and its slice of sums and steps. Synchronous; knows nothing of messages. */
import { thrownText } from '../../core/errors.ts';
import { EngineInputError, MemoryLimitError, NotFiniteError } from '../engine-errors.ts';
import { TrainerPass } from '../compute/trainer-pass.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import type { ModelWeights } from '../model/model-types.ts';
import type {
  AdamCommand,
  BackwardCommand,
  ForwardCommand,
  SumCommand,
  TrainingAnswer,
  TrainingCommand,
  TrainingFailure,
} from './training-commands.ts';

export interface ThreadTrainerParts {
  readonly kernels: Kernels;
  readonly memory: EngineMemory;
  readonly model: ModelWeights;
}

const DONE: TrainingAnswer = { kind: 'done' };

export class ThreadTrainer {
  readonly #parts: ThreadTrainerParts;
  /** The pass of the last forward, if that was retained. */
  #pass: TrainerPass | null = null;

  constructor(parts: ThreadTrainerParts) {
    this.#parts = parts;
  }

  /** Never throws; failures are returned. */
  handle(command: TrainingCommand): TrainingAnswer {
    try {
      return this.#carryOut(command);
    } catch (error) {
      return failureOf(error);
    }
  }

  #carryOut(command: TrainingCommand): TrainingAnswer {
    if (command.kind === 'forward') return this.#forward(command);
    if (command.kind === 'backward') return this.#backward(command);
    if (command.kind === 'sum') return this.#sum(command);
    return this.#adam(command);
  }

  #forward({ batch, adapter, retain, entropy, checkpointing, region }: ForwardCommand): TrainingAnswer {
    this.#pass = null;
    // A pass of its own, because the next command may be another trainer's, in another region or way.
    const pass = new TrainerPass({ ...this.#parts, region, checkpointing });
    const found = pass.forward(batch, { adapter, retain, entropy });
    if (!found.logProbs.every(Number.isFinite) || found.entropy?.every(Number.isFinite) === false) {
      throw new NotFiniteError("Log-probs are not finite: the model computed a NaN or an infinity. The model's weights or its adapter are broken.");
    }
    if (retain) this.#pass = pass;
    return { kind: 'log-probs', ...found };
  }

  #backward({ gradient, numbers: { pointer, count, fresh }, dLogProbs, dEntropy, scale }: BackwardCommand): TrainingAnswer {
    if (this.#pass === null) throw new RangeError('backward was called before forward');
    if (fresh) new Float32Array(this.#parts.memory.buffer, pointer, count).fill(0);
    this.#pass.backward(gradient, { dLogProbs, dEntropy, scale });
    return DONE;
  }

  #sum({ pointers, count }: SumCommand): TrainingAnswer {
    const { kernels } = this.#parts;
    const [first, ...others] = pointers as [number, ...number[]];
    for (const other of others) kernels.addTo(first, other, count);
    return { kind: 'sum-of-squares', value: kernels.sumOfSquares(first, count) };
  }

  #adam(step: AdamCommand): TrainingAnswer {
    this.#parts.kernels.adam(
      step.parameters,
      step.gradient,
      step.firstMoments,
      step.secondMoments,
      step.count,
      step.scale,
      step.learningRate,
      step.beta1,
      step.beta2,
      step.epsilon,
      step.weightDecay,
      step.correction1,
      step.correction2,
    );
    return DONE;
  }
}

function failureOf(error: unknown): TrainingFailure {
  const message = thrownText(error);
  if (error instanceof NotFiniteError) return { kind: 'failed', code: 'not_finite', message };
  if (error instanceof MemoryLimitError) return { kind: 'failed', code: 'out_of_memory', message };
  if (error instanceof EngineInputError || error instanceof RangeError) return { kind: 'failed', code: 'invalid', message };
  return { kind: 'failed', code: 'internal', message };
}
