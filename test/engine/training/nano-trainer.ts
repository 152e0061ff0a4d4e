/** Trainers over the nano model, their threads all in this one: what is computed is the same. */
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { ADAPTED } from '../../../src/engine/model/model-types.ts';
import { nodeHost } from '../../../src/engine/node-host.ts';
import { ServedAdapters } from '../../../src/engine/served-adapters.ts';
import { ActivationRoom } from '../../../src/engine/training/activation-room.ts';
import type { TrainerParts } from '../../../src/engine/training/open-trainer.ts';
import { ShardedTrainer } from '../../../src/engine/training/sharded-trainer.ts';
import { ThreadTrainer } from '../../../src/engine/training/thread-trainer.ts';
import type { TrainerOptions } from '../../../src/engine/training/trainer-types.ts';
import type { TrainingAnswer, TrainingCommand } from '../../../src/engine/training/training-commands.ts';
import { NANO_BASE } from '../../trainer/gradients/embedded/nano-adapter.ts';
import { loadModel } from '../from-directory.ts';

export interface NanoTrainer extends AsyncDisposable {
  readonly trainer: ShardedTrainer;
  readonly memory: SharedMemory;
  /** All commands so far, with their threads. */
  readonly commands: { readonly thread: number; readonly command: TrainingCommand }[];
  /** What a command is answered with, or rejects with, in place of being carried out; null carries it out. */
  fail: (command: TrainingCommand, thread: number) => Error | TrainingAnswer | Promise<TrainingAnswer> | null;
  /** Creates another trainer of the same model and threads, which has to be closed too. */
  another(options?: Partial<TrainerOptions>): Promise<ShardedTrainer>;
}

export interface NanoTrainerOptions extends Partial<TrainerOptions> {
  /** @default 2 */
  readonly threads?: number;
  /** @default one of its own, as large as any */
  readonly memory?: SharedMemory;
}

const DEFAULTS = { rank: 3, alpha: 12, targets: ADAPTED, seed: 1, initial: null, checkpointing: false, memoryBytes: null } as const;

/** A new model and trainer each time. */
export async function openNanoTrainer({ threads = 2, memory = new SharedMemory(), ...options }: NanoTrainerOptions = {}): Promise<NanoTrainer> {
  const { signal } = new AbortController();
  const { module } = loadKernelsModule();
  const kernels = instantiateKernels(module, memory.memory);
  const model = await loadModel(NANO_BASE, { memory, kernels, signal });
  const trainers = Array.from(
    { length: threads },
    () => new ThreadTrainer({ kernels: instantiateKernels(module, memory.memory), memory: memory.memory, model }),
  );
  const commands: NanoTrainer['commands'] = [];
  const callTraining = async (thread: number, command: TrainingCommand) => {
    // As it would travel to a real thread.
    const travelled = structuredClone(command);
    commands.push({ thread, command: travelled });
    const failure = await nano.fail(command, thread);
    if (failure instanceof Error) throw failure;
    if (failure !== null) return failure;
    return trainers[thread]!.handle(travelled);
  };
  const nano: Pick<NanoTrainer, 'fail'> = { fail: () => null };
  const adapters = new ServedAdapters({ memory, place: () => Promise.reject(new Error('no directory is read here')), forget: async () => {} });
  const room = new ActivationRoom(memory);
  const parts: TrainerParts = { host: nodeHost, threads: { size: threads, callTraining }, memory, kernels, model, adapters, room };
  const another = (some: Partial<TrainerOptions> = {}) => ShardedTrainer.create(parts, { ...DEFAULTS, signal, ...some });
  const trainer = await another(options);
  return Object.assign(nano, { trainer, memory, commands, another, [Symbol.asyncDispose]: () => trainer.close() });
}
