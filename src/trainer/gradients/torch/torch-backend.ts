/**
 * The PyTorch gradient backend: a Python child process (worker.py next to this file) over framed stdio. This file translates the contract's calls
 * to the worker's and checks the answers; the worker does the mathematics. A worker that dies takes the model with it: every call then rejects
 * with `lost`, and training continues only in a new worker that loads a saved state.
 */
import { join, resolve } from 'node:path';
import { CancelledError, ConfigError, GradientError } from '../../../core/errors.ts';
import type {
  AdapterDescription,
  AdapterFiles,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
} from '../../gradient-backend.ts';
import type { AdapterOptions } from '../adapter-options.ts';
import { assertStartAdapter } from '../assert-start-adapter.ts';
import { type AdamOptions, adamProblem } from '../../../core/adam-options.ts';
import { isDiskFull } from '../../../files/disk-full.ts';
import { baseName } from '../../../engine/adapters/base-name.ts';
import type { Frame, FrameArrays } from './frames.ts';
import {
  type BaseAnswer,
  type HelloAnswer,
  gradientErrorCode,
  readAdapter,
  readBase,
  readError,
  readFiles,
  readFinite,
  readMovement,
  readHello,
  readState,
  readStep,
} from './worker-answers.ts';
import type { WorkerExit } from './rank-processes.ts';
import { INSTALL, WorkerProcess } from './worker-process.ts';

export interface TorchBackendOptions {
  /** A Python with torch, transformers and safetensors. */
  readonly python: string;
  /** A Hugging Face directory (config.json, *.safetensors) or a hub id. */
  readonly modelPath: string;
  readonly adapter: AdapterOptions;
  /** `auto`, `cpu`, `cuda`, `cuda:1`, ... With several there is a process for each, and they divide every batch by whole sequences; all `cpu` or all GPUs. */
  readonly devices: readonly string[];
  /** Number of all processes, those on other hosts included; see docs/gpu-training.md. @default that of `devices` */
  readonly worldSize?: number;
  /** `full`: each process holds a part of every layer. `auto`: it does so if the base takes more than half of a GPU's free memory. @default 'auto' */
  readonly sharding?: 'auto' | 'none' | 'full';
  /** Type of the base. `auto`: bfloat16 on a GPU, float32 elsewhere. */
  readonly dtype: 'auto' | 'float32' | 'bfloat16';
  readonly gradientCheckpointing: boolean;
  /** CPU threads; null lets torch choose. */
  readonly threads: number | null;
  /** The folder in which a vision-language base finds the images of batches. @default batches hold none */
  readonly images?: TorchImages;
  /** Deadline of each call, loading the base included. A call that misses it ends the worker. */
  readonly timeoutMs: number;
  /** The worker's stderr is appended here; null keeps only the last lines, for error messages. */
  readonly logPath: string | null;
  /** Cancels the start; has no effect afterwards. */
  readonly signal: AbortSignal;
  /** Entire environment of the child. @default {} */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

interface TorchImages {
  /** Files `<sha256>.<png|jpg|webp>` (files/run-images.ts). Every process reads it, those on other hosts too; it may be created later. */
  readonly folder: string;
  /** Memory, in bytes, in which each process keeps what the base's tower made of images. @default 1 GiB */
  readonly cacheBytes?: number;
}

/** Counted since the worker started. */
export interface TorchStats {
  readonly forwardTokens: number;
  readonly trainedTokens: number;
  readonly forwardSeconds: number;
  readonly backwardSeconds: number;
  /** From the GPU's allocator; null on a CPU. */
  readonly peakMemoryBytes: number | null;
  /** Batches that await backward or drop. */
  readonly retainedBatches: number;
  /** The number of times that the base's tower turned an image into embeddings. */
  readonly towerPasses: number;
}

const PROTOCOL = 1;
const SCRIPT = join(import.meta.dirname, 'worker.py');

export class TorchBackend implements GradientBackend {
  readonly adapter: AdapterDescription;
  readonly pid: number;
  /** Of all processes on this host, by rank. */
  readonly pids: readonly number[];
  /** Resolves with the exit of the first process once all have ended, for whatever reason. */
  readonly exited: Promise<WorkerExit>;
  readonly #worker: WorkerProcess;
  #capabilities: BackendCapabilities;
  #batches = 0;

  private constructor(worker: WorkerProcess, capabilities: BackendCapabilities, adapter: AdapterDescription) {
    this.#worker = worker;
    this.#capabilities = capabilities;
    this.adapter = adapter;
    this.pids = worker.pids as number[];
    this.pid = this.pids[0]!;
    this.exited = worker.exited;
  }

  /**
   * Starts the worker, loads the base and creates the adapter; one to start from is checked first. Rejects with ConfigError if Python, a library, the model or the adapter does not match the
   * options, with GradientError if the worker fails, and with CancelledError; in each case no process is left behind.
   */
  static async start(options: TorchBackendOptions): Promise<TorchBackend> {
    const { python, modelPath, adapter, gradientCheckpointing, devices, signal, timeoutMs, logPath, env = {} } = options;
    const { worldSize = devices.length, sharding = 'auto' } = options;
    if (signal.aborted) throw new CancelledError('Starting the torch worker was cancelled', { cause: signal.reason });
    const initial = adapter.initial === null ? null : resolve(adapter.initial);
    if (initial !== null) await assertStartAdapter(initial, adapter, modelPath);
    const worker = new WorkerProcess({ python, script: SCRIPT, env, logPath, timeoutMs, devices, worldSize });
    const call = async (name: string, fields: Readonly<Record<string, unknown>>) => succeeded(await worker.call(name, fields, {}, { signal })).header;
    try {
      const { dtype, threads } = options;
      const hello = readHello(await call('hello', { protocol: PROTOCOL, device: devices[0], dtype, threads }));
      const loaded = { path: modelPath, gradient_checkpointing: gradientCheckpointing, sharding, ...imageFields(options) };
      const base = readBase(await call('load_base', loaded));
      const { modules } = readAdapter(await call('create_adapter', { ...adapter, initial }));
      return new TorchBackend(worker, capabilitiesOf(hello, base, options), {
        rank: adapter.rank,
        alpha: adapter.alpha,
        baseModel: modelPath,
        modules: modules.map((module) => ({ path: module.path, inFeatures: module.in_features, outFeatures: module.out_features })),
        vocabularySize: base.vocabulary_size,
      });
    } catch (error) {
      // Killed, because loading the base may take minutes more.
      worker.kill(error as Error);
      await worker.exited;
      if (error instanceof GradientError && error.code === 'bad_input') throw new ConfigError(error.message, { cause: error });
      throw error;
    }
  }

  get capabilities(): BackendCapabilities {
    return this.#capabilities;
  }

  async forward(batch: PackedBatch, options: ForwardOptions): Promise<ForwardResult> {
    const { ids, offsets, targets, targetIds, temperature, images } = batch;
    const { retain, adapter, entropy = false, signal } = options;
    // JSON would turn NaN and infinities into null.
    if (!Number.isFinite(temperature)) throw badInput(`temperature must be above 0, got ${temperature}`);
    const batchId = `batch-${++this.#batches}`;
    const fields = { batch_id: batchId, temperature, retain, adapter, entropy, ...(images === undefined ? {} : { images }) };
    const onAbandoned = ({ header }: Frame) => {
      // Otherwise its graph stays in memory. If the drop fails, the worker is gone and the graph with it.
      if (retain && header['ok'] === true) this.drop(batchId).catch(() => {});
    };
    const { arrays } = succeeded(
      await this.#worker.call(
        'forward',
        fields,
        { ids, offsets, targets, ...(targetIds === undefined ? {} : { target_ids: targetIds }) },
        { signal, onAbandoned },
      ),
    );
    const logProbs = floats(arrays, 'log_probs', targets.length);
    return entropy ? { batchId, logProbs, entropy: floats(arrays, 'entropy', targets.length) } : { batchId, logProbs };
  }

  async backward(batchId: string, gradient: { readonly dLogProbs: Float32Array; readonly dEntropy?: Float32Array }): Promise<void> {
    const { dLogProbs, dEntropy } = gradient;
    await this.#call('backward', { batch_id: batchId }, { d_log_probs: dLogProbs, ...(dEntropy && { d_entropy: dEntropy }) });
  }

  async drop(batchId: string): Promise<void> {
    await this.#call('drop', { batch_id: batchId });
  }

  async zeroGrad(): Promise<void> {
    await this.#call('zero_grad', {});
  }

  async optimStep(options: AdamOptions): Promise<OptimStepResult> {
    const problem = adamProblem(options);
    if (problem !== null) throw new GradientError(problem, { code: 'bad_input' });
    const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options;
    const fields = { learning_rate: learningRate, beta1, beta2, epsilon, weight_decay: weightDecay, max_grad_norm: maxGradNorm };
    const { step, grad_norm, skipped } = readStep((await this.#call('optim_step', fields)).header);
    return { step, gradNorm: numberOf(grad_norm), skipped };
  }

  async hold(): Promise<void> {
    await this.#call('hold', {});
  }

  async restore(): Promise<void> {
    await this.#call('restore', {});
  }

  async isFinite(): Promise<boolean> {
    return readFinite((await this.#call('is_finite', {})).header).finite;
  }

  async movement(): Promise<number> {
    return Number(readMovement((await this.#call('movement', {})).header).most);
  }

  async saveAdapter(directory: string): Promise<AdapterFiles> {
    const absolute = resolve(directory);
    const { files } = readFiles((await this.#call('save_adapter', { directory: absolute, base_name: baseName(this.adapter.baseModel) })).header);
    return { kind: 'files', directory: absolute, rank: this.adapter.rank, alpha: this.adapter.alpha, files };
  }

  async saveState(directory: string): Promise<void> {
    await this.#call('save_state', { directory: resolve(directory) });
  }

  /** Also drops retained batches. If threads, device, dtype or torch differ from the saved ones, `capabilities.description` says so from then on. */
  async loadState(directory: string): Promise<void> {
    const { differences } = readState((await this.#call('load_state', { directory: resolve(directory) })).header);
    if (differences.length === 0) return;
    const { description } = this.#capabilities;
    this.#capabilities = { ...this.#capabilities, description: `${description}; not bit for bit as before: ${differences.join(', ')}` };
  }

  async releaseMemory(): Promise<void> {
    await this.#call('release', {});
  }

  async stats(): Promise<TorchStats> {
    const { header } = await this.#call('stats', {});
    return {
      forwardTokens: Number(header['forward_tokens']),
      trainedTokens: Number(header['trained_tokens']),
      forwardSeconds: Number(header['forward_seconds']),
      backwardSeconds: Number(header['backward_seconds']),
      retainedBatches: Number(header['retained']),
      towerPasses: Number(header['tower_passes']),
      peakMemoryBytes: header['peak_memory_bytes'] === null ? null : Number(header['peak_memory_bytes']),
    };
  }

  close(): Promise<void> {
    return this.#worker.close();
  }

  async #call(name: string, fields: Readonly<Record<string, unknown>>, arrays: FrameArrays = {}): Promise<Frame> {
    return succeeded(await this.#worker.call(name, fields, arrays));
  }
}

function capabilitiesOf(
  hello: HelloAnswer,
  { attention, sharded, images }: BaseAnswer,
  { devices, worldSize = devices.length }: TorchBackendOptions,
): BackendCapabilities {
  const { dtype, entropy_gradient } = hello;
  const device = worldSize === 1 ? hello.device : devices.join(', ');
  const memory = hello.memory_bytes === null ? `${hello.threads} threads` : `${(hello.memory_bytes / 2 ** 30).toFixed(0)} GiB`;
  const description = `torch ${hello.torch}, transformers ${hello.transformers}, Python ${hello.python}, ${hello.device_name} (${memory}), ${attention} attention${worldSize === 1 ? '' : `, ${worldSize} processes${sharded ? ' that share the base' : ''}`}`;
  return { name: 'torch', description, device, dtype, entropyGradient: entropy_gradient, images, maxTokens: Infinity };
}

function imageFields({ images }: TorchBackendOptions): Readonly<Record<string, unknown>> {
  if (images === undefined) return {};
  const { folder, cacheBytes } = images;
  return { images_folder: resolve(folder), ...(cacheBytes === undefined ? {} : { image_cache_bytes: cacheBytes }) };
}

/** Returns a successful answer; throws the failure that another one reports. */
function succeeded(answer: Frame): Frame {
  if (answer.header['ok'] === true) return answer;
  const { code, text } = readError(answer.header);
  if (code === 'missing_library') throw new ConfigError(`backend.python lacks torch, transformers, safetensors or pillow: ${text}; ${INSTALL}`);
  throw new GradientError(isDiskFull(text) ? `${text}. Free some space` : text, { code: gradientErrorCode(code) });
}

function floats(arrays: FrameArrays, name: string, length: number): Float32Array {
  const array = arrays[name];
  if (array instanceof Float32Array && array.length === length) return array;
  const got = array === undefined ? 'none' : `${array.length} of ${array.constructor.name}`;
  throw new GradientError(`Expected ${length} float32 numbers in ${name} from the torch worker, got ${got}`, { code: 'internal' });
}

/** Python's `repr` of a float. */
function numberOf(text: string): number {
  return { nan: NaN, inf: Infinity, '-inf': -Infinity }[text] ?? Number(text);
}

function badInput(message: string): GradientError {
  return new GradientError(message, { code: 'bad_input' });
}
