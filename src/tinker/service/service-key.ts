/** The credential of requests to a training service: the API key, or the token that the service gives for it. */
import { cancelled, untilAborted } from '../../core/abort.ts';
import { readJson } from '../../core/read-json.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Of a token that does not say when it ends. */
const UNKNOWN_LIFE_MS = 20 * 60_000;

export class ServiceKey {
  readonly #apiKey: string;
  readonly #fetchToken: ((signal: AbortSignal) => Promise<string>) | null;
  #token: { readonly value: string; readonly refreshAtMs: number } | null = null;
  readonly #ended = new AbortController();
  #fetching: Promise<string> | null = null;

  /** `fetchToken` exchanges the key for a token; null sends the key itself. */
  constructor(apiKey: string, fetchToken: ((signal: AbortSignal) => Promise<string>) | null) {
    this.#apiKey = apiKey;
    this.#fetchToken = fetchToken;
  }

  /** True if the service gives tokens. */
  get hasTokens(): boolean {
    return this.#fetchToken !== null;
  }

  /** What goes into the header now. A token is replaced at half its life. */
  async current(signal: AbortSignal): Promise<string> {
    const fetchToken = this.#fetchToken;
    if (fetchToken === null) return this.#apiKey;
    if (this.#token !== null && Date.now() < this.#token.refreshAtMs) return this.#token.value;
    // Others wait for it too, so that one caller's end ends its own wait only.
    this.#fetching ??= fetchToken(this.#ended.signal)
      .then((value) => {
        this.#token = { value, refreshAtMs: Date.now() + lifeMs(value) / 2 };
        return value;
      })
      .finally(() => (this.#fetching = null));
    return untilAborted(this.#fetching, signal, () => cancelled(signal));
  }

  /** Ends what is being fetched. */
  close(): void {
    this.#ended.abort();
  }

  /** The service refuses this token. */
  discard(token: string): void {
    if (this.#token?.value === token) this.#token = null;
  }
}

/** Milliseconds until a JSON Web Token ends, by its claim `exp`. */
function lifeMs(token: string): number {
  try {
    const claims = readJson(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    const ends = isObject(claims) ? claims['exp'] : undefined;
    return typeof ends === 'number' ? Math.max(0, ends * 1000 - Date.now()) : UNKNOWN_LIFE_MS;
  } catch {
    // It is no JSON Web Token.
    return UNKNOWN_LIFE_MS;
  }
}
