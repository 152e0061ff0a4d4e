/** Reads from the server that the page came from. The server requires a token on any address other than loopback; the token is in the fragment of the URL. */
import { VIEW_REQUESTS } from '../../../src/viewing/request-key.ts';
import type {
  Comparison,
  ComparisonQuery,
  HeldOutDetail,
  MetricLines,
  RolloutDetail,
  RolloutPage,
  RolloutPlace,
  RolloutQuery,
  RolloutTokens,
  TokensPlace,
  RunDetail,
  RunList,
  StepDetail,
  ViewSource,
} from '../../../src/viewing/view-wire.ts';

/** A search over a file of a gigabyte takes its time. */
const DEADLINE_MS = 120_000;

export class HttpSource implements ViewSource {
  readonly live = true;
  readonly #token: string | null;

  /** @param token Null if the server requires none. */
  constructor(token: string | null) {
    this.#token = token;
  }

  runs(): Promise<RunList> {
    return this.#get(VIEW_REQUESTS.runs());
  }

  run(run: string): Promise<RunDetail> {
    return this.#get(VIEW_REQUESTS.run(run));
  }

  rollouts(query: RolloutQuery): Promise<RolloutPage> {
    return this.#get(VIEW_REQUESTS.rollouts(query));
  }

  rollout(place: RolloutPlace): Promise<RolloutDetail> {
    return this.#get(VIEW_REQUESTS.rollout(place));
  }

  tokens(place: TokensPlace): Promise<RolloutTokens> {
    return this.#get(VIEW_REQUESTS.tokens(place));
  }

  metrics(run: string, after: number): Promise<MetricLines> {
    return this.#get(VIEW_REQUESTS.metrics(run, after));
  }

  step(run: string, step: number): Promise<StepDetail> {
    return this.#get(VIEW_REQUESTS.step(run, step));
  }

  heldOut(run: string, group: string): Promise<HeldOutDetail> {
    return this.#get(VIEW_REQUESTS.heldOut(run, group));
  }

  compare(query: ComparisonQuery): Promise<Comparison> {
    return this.#get(VIEW_REQUESTS.compare(query));
  }

  /** An img sends no header, so its address has the token. */
  image(run: string, sha256: string): string {
    const path = VIEW_REQUESTS.image(run, sha256);
    return this.#token === null ? path : `${path}&token=${encodeURIComponent(this.#token)}`;
  }

  async #get<T>(path: string): Promise<T> {
    const headers = this.#token === null ? {} : { authorization: `Bearer ${this.#token}` };
    let response: Response;
    try {
      response = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.timeout(DEADLINE_MS) });
    } catch (cause) {
      throw new Error('vf-view does not answer. See whether it still runs in its terminal, then try again.', { cause });
    }
    const body: unknown = await response.json().catch(() => null);
    if (response.ok && body !== null) return body as T;
    throw new Error(problemOf(body) ?? `The server answered with status ${response.status}. See its terminal for the cause.`);
  }
}

function problemOf(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !('problem' in body)) return null;
  return typeof body.problem === 'string' ? body.problem : null;
}
