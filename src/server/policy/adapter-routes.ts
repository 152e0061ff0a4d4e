/**
 * `POST /v1/load_lora_adapter`, `POST /v1/unload_lora_adapter` and `GET /v1/models`, with vLLM 0.32.0's answers. It is stricter where vLLM is wrong: loading refuses numbers
 * that are not finite and wrong shapes, with 400 instead of 500.
 */
import { join } from 'node:path';
import type { Context } from 'hono';
import { ADAPTER_CONFIG, ADAPTER_WEIGHTS } from '../../engine/adapters/read-adapter.ts';
import { EngineInputError } from '../../engine/engine-errors.ts';
import type { LoadedAdapter } from '../../engine/engine-types.ts';
import { readText } from '../../engine/model/text-file.ts';
import type { LoadAdapterRequest } from '../../schemas/policy-server/adapter-request.ts';
import { adapterDirectory, type AdapterPlaces } from './adapter-directory.ts';
import { PolicyRefusal } from './policy-refusal.ts';
import type { ServedEngine } from './served-engine.ts';

const PERMISSION = {
  allow_create_engine: false,
  allow_sampling: true,
  allow_logprobs: true,
  allow_search_indices: false,
  allow_view: true,
  allow_fine_tuning: false,
  organization: '*',
  group: null,
  is_blocking: false,
} as const;

/** A warning about a directory whose adapter has been loaded, for the client and the operator; null if there is none. */
export type AdapterNotice = (directory: string) => Promise<string | null>;

export class AdapterRoutes {
  readonly #served: ServedEngine;
  readonly #places: AdapterPlaces;
  /** The client's path of each adapter, by which publishers recognize theirs. */
  readonly #paths = new WeakMap<LoadedAdapter, string>();
  #loading = 0;

  readonly #notice: AdapterNotice;

  constructor(served: ServedEngine, places: AdapterPlaces, notice: AdapterNotice = async () => null) {
    this.#served = served;
    this.#places = places;
    this.#notice = notice;
  }

  async load(c: Context, { name, path }: LoadAdapterRequest): Promise<Response> {
    const { engine, options } = this.#served;
    if (name === options.servedName) throw userError(`The lora adapter '${name}' conflicts with a served base model.`);
    if (engine.adapters.some((adapter) => adapter.name === name)) throw alreadyLoaded(name);
    const { maxAdapters } = options.limits;
    if (engine.adapters.length + this.#loading >= maxAdapters) {
      throw userError(`Loading lora ${name} failed: ${maxAdapters} adapters are loaded, which is the limit (--max-adapters); unload one first`);
    }
    this.#loading += 1;
    let notice: string | null;
    try {
      const directory = await adapterDirectory(path, { name, places: this.#places, files: [ADAPTER_CONFIG, ADAPTER_WEIGHTS] });
      await this.#checkRank(name, directory);
      const adapter = await engine.loadAdapter({ name, directory, signal: c.req.raw.signal }).catch((error: unknown) => {
        throw loadRefusal(error, { name, path });
      });
      this.#paths.set(adapter, path);
      notice = await this.#notice(directory);
    } finally {
      this.#loading -= 1;
    }
    return c.text(`Success: LoRA adapter '${name}' added successfully.${notice === null ? '' : ` Warning: ${notice}`}`);
  }

  unload(c: Context, name: string): Response {
    if (!this.#served.engine.unloadAdapter(name)) throw new PolicyRefusal(404, `The lora adapter '${name}' cannot be found.`);
    return c.text(`Success: LoRA adapter '${name}' removed successfully.`);
  }

  models(c: Context): Response {
    const { engine, options, startedAt } = this.#served;
    const base = { id: options.servedName, root: engine.config.path, parent: null, max_model_len: engine.maxModelLen };
    const adapters = engine.adapters.map((adapter) => ({
      id: adapter.name,
      root: this.#paths.get(adapter) ?? adapter.directory,
      parent: options.servedName,
      max_model_len: null,
    }));
    const card = ({ id, ...rest }: typeof base | (typeof adapters)[number]) => ({
      id,
      object: 'model',
      created: startedAt,
      owned_by: 'vllm',
      ...rest,
      permission: [{ id: `modelperm-${id}`, object: 'model_permission', created: startedAt, ...PERMISSION }],
    });
    return c.json({ object: 'list', data: [base, ...adapters].map(card) });
  }

  /** The rank limit is the server's own; the engine accepts any rank up to its maximum. */
  async #checkRank(name: string, directory: string): Promise<void> {
    const { maxLoraRank } = this.#served.options.limits;
    const text = await readText(join(directory, ADAPTER_CONFIG), { remedy: 'the engine reports it' }).catch(() => '');
    const rank = /"r"\s*:\s*(\d+)/.exec(text)?.[1];
    if (rank === undefined || Number(rank) <= maxLoraRank) return;
    throw new PolicyRefusal(400, `Loading lora ${name} failed: LoRA rank ${rank} is greater than max_lora_rank ${maxLoraRank}.`);
  }
}

function userError(message: string): PolicyRefusal {
  return new PolicyRefusal(400, message, { type: 'InvalidUserInput' });
}

function alreadyLoaded(name: string): PolicyRefusal {
  return userError(`The lora adapter '${name}' has already been loaded. Unload it first, or load this one under a new name.`);
}

function loadRefusal(error: unknown, { name, path }: LoadAdapterRequest): unknown {
  if (!(error instanceof EngineInputError)) return error;
  const cause = { cause: error };
  if (error.code === 'name_taken') return alreadyLoaded(name);
  if (error.code === 'not_found') return new PolicyRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`, cause);
  return new PolicyRefusal(400, `Loading lora ${name} failed: ${error.message}`, cause);
}
