/**
 * A policy on one or several vLLM servers by token ids: prompts are sent as ids, sampled ids and their log-probs come back, and sampled text is never
 * tokenised again. A lease is one trajectory under one version on one server.
 */
import { CancelledError, ConfigError, PolicyError } from '../core/errors.ts';
import type { ImageStore } from '../core/message.ts';
import { Random } from '../core/random.ts';
import type { PolicyTokenizer } from '../tokenizer/policy-tokenizer.ts';
import type { PolicyCapabilities, PolicyClient, PolicyLease, PolicyRef } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';
import { ReplicaChoice } from './replica-choice.ts';
import { VllmLease } from './vllm-lease.ts';
import { VllmServer, type VllmServerOptions } from './vllm-server.ts';
import { VllmTokenizer } from './vllm-tokenizer.ts';

export interface VllmTokensOptions extends Omit<VllmServerOptions, 'baseUrl' | 'random'> {
  /** With or without `/v1`. Several URLs are replicas of one model; a trajectory stays on one. */
  readonly baseUrls: readonly string[];
  /** Determines the model name of each lease; owned by the run. */
  readonly versions: PolicyVersions;
  /** The result of `probePolicy`. */
  readonly capabilities: Omit<PolicyCapabilities, 'kind'>;
  /** Null finds out at the first prompt. @default derived from `capabilities.chatTemplate` */
  readonly hasChatTemplate?: boolean | null;
  /** The model's tokenizer on this machine; the servers are then used for completions only. @default the servers' */
  readonly tokenizer?: PolicyTokenizer;
  /** The policy's name in results. @default the model of the current version */
  readonly name?: string;
  /** Source of the jitter of retries. @default a fixed seed */
  readonly random?: Random;
  /**
   * Sends a seed with every generation, drawn from the lease's `random`, so that a run samples the same tokens at any concurrency. Only for servers
   * whose seeded samples do not depend on the batch, such as the embedded engine; seeds slow down vLLM and crash its CPU build.
   * @default false
   */
  readonly sendsSeeds?: boolean;
  /** The bytes of images in prompts. @default none */
  readonly images?: ImageStore;
  /** Number of ids in the vocabulary; a sampled id beyond it is an error. @default null, unknown */
  readonly vocabularySize?: number | null;
  /** Called with the number of spelled control tokens in the text that were encoded as ordinary text. */
  readonly onControlTokens?: (count: number) => void;
}

/**
 * A trainable policy. The constructor throws ConfigError if `baseUrls` is empty or has a malformed URL.
 * @example
 * const { kind, ...capabilities } = await probePolicy({ baseUrl, model: null, signal });
 * const versions = new PolicyVersions({ version: 0, model: capabilities.model });
 * const client = new VllmTokensClient({ baseUrls: [baseUrl], versions, capabilities });
 */
export class VllmTokensClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #servers: readonly VllmServer[];
  readonly #vllmTokenizer: VllmTokenizer;
  readonly #tokenizer: PolicyTokenizer | null;
  readonly #versions: PolicyVersions;
  readonly #onControlTokens: (count: number) => void;
  readonly #sendsSeeds: boolean;
  readonly #images: ImageStore | null;
  readonly #vocabularySize: number | null;
  readonly #closed = new AbortController();
  /** The name of the base, whose tokenizer all versions have. */
  readonly #base: string;
  #leases = 0;
  #controlTokens = 0;

  constructor(options: VllmTokensOptions) {
    const {
      baseUrls,
      versions,
      capabilities,
      hasChatTemplate = null,
      tokenizer = null,
      name,
      random = Random.fromSeed(0),
      sendsSeeds = false,
      images = null,
      vocabularySize = null,
      onControlTokens,
      ...server
    } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one vLLM server.');
    const isEmbedded = capabilities.isEmbedded ?? false;
    const shared = { ...server, isEmbedded, hasReplicas: baseUrls.length > 1 };
    this.#servers = baseUrls.map((baseUrl, i) => new VllmServer({ ...shared, baseUrl, random: random.fork(i) }));
    this.#tokenizer = tokenizer;
    this.#vllmTokenizer = new VllmTokenizer(tokenizerFacts(capabilities, hasChatTemplate));
    this.#versions = versions;
    this.#base = versions.current().model;
    this.capabilities = { ...capabilities, kind: 'tokens' };
    this.name = name ?? versions.current().model;
    this.#onControlTokens = onControlTokens ?? (() => {});
    this.#sendsSeeds = sendsSeeds;
    this.#images = images;
    this.#vocabularySize = vocabularySize;
  }

  /** Number of spelled control tokens that were encoded as ordinary text, over all leases. */
  get controlTokensNeutralised(): number {
    return this.#controlTokens;
  }

  /**
   * Takes the healthy replica with the fewest trajectories among those that have the current version; if none is healthy, the one that failed longest
   * ago. If a replica fails, its trajectories go on at another one that has their version. Throws PolicyError if none has it.
   */
  async lease(
    signal: AbortSignal,
    { random = null, like }: { readonly random?: Random | null; readonly like?: PolicyLease } = {},
  ): Promise<VllmLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#closed.signal.aborted) throw new PolicyError('The client is closed');
    const { replicas, isInFlight } = this.#versions;
    const { model } = like?.policy ?? this.#versions.current();
    const placesOf = (name: string) => new ReplicaChoice({ servers: this.#servers, replicas, model: name });
    const places = placesOf(model);
    const server = places.first();
    this.#leases += 1;
    const version = isInFlight ? unpinned(like?.policy ?? this.#versions.current()) : this.#versions.acquire(like?.policy);
    // An old version may leave the server while a trajectory that began under it goes on.
    const named = isInFlight ? this.#base : model;
    return new VllmLease({
      server,
      places,
      ...(isInFlight ? { inFlight: { versions: this.#versions, placesOf } } : {}),
      tokenizerAt: (at) => this.#tokenizer ?? this.#vllmTokenizer.at({ server: at, model: named, signal: this.#closed.signal }),
      version,
      random: this.#sendsSeeds ? random : null,
      session: `vf-${process.pid}-${this.#leases}`,
      maxModelLen: this.capabilities.maxModelLen,
      images: this.#images,
      imageTokens: this.capabilities.imageTokens ?? null,
      vocabularySize: this.#vocabularySize,
      onControlTokens: (count) => {
        this.#controlTokens += count;
        this.#onControlTokens(count);
      },
    });
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#servers.map((server) => server.close()));
  }
}

/** Each generation pins the version that is current when it begins. */
function unpinned(ref: PolicyRef) {
  return { ref, release: () => {} };
}

function tokenizerFacts(
  { chatTemplate, beginsWithBos, closingTokenId, imageTokens }: Omit<PolicyCapabilities, 'kind'>,
  hasChatTemplate: boolean | null,
) {
  return {
    hasTemplate: hasChatTemplate ?? (chatTemplate === undefined ? null : chatTemplate === 'model'),
    ...(beginsWithBos === undefined ? {} : { beginsWithBos }),
    ...(closingTokenId === undefined ? {} : { closingTokenId }),
    ...(imageTokens === undefined ? {} : { imageTokens }),
  };
}
