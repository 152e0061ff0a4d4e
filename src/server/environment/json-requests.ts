/** Reads JSON requests of the environment server within limits, and answers in its form. */
import type { Context } from 'hono';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import type { XStatic } from 'typebox/schema';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS, type ReadBody } from '../bounded-body.ts';
import { isJson } from '../door.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { EnvironmentRefusal } from './environment-refusal.ts';
import { PacedTurns } from './paced-turns.ts';
import { type RequestJson, readRequestJson } from './request-json.ts';
import { withoutNonFinite } from '../../core/finite-json.ts';

export interface JsonRequestsOptions {
  readonly maxBodyBytes: number;
  /** Number of bodies of maximum size that may be held at a time. */
  readonly bodiesHeld: number;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
  /** As for `readExactJson`. */
  readonly isWord?: (key: string) => boolean;
  /** Where the requests are described. @default 'GET /openapi.json' */
  readonly describedBy?: string;
}

export class JsonRequests {
  readonly #budget: BodyBudget;
  readonly #turns = new PacedTurns();
  readonly #isWord: JsonRequestsOptions['isWord'];
  readonly #describedBy: string;

  constructor({ maxBodyBytes, bodiesHeld, held, isWord, describedBy = 'GET /openapi.json' }: JsonRequestsOptions) {
    this.#describedBy = describedBy;
    this.#isWord = isWord;
    this.#budget = new BodyBudget({ maxBodyBytes, maxTotalBytes: bodiesHeld * maxBodyBytes, held, bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS });
  }

  /** Reads a body that fits the schema and passes it to `use`. Throws EnvironmentRefusal. */
  async read<const S extends object>(
    c: Context,
    { schema, use }: { readonly schema: S; readonly use: (request: XStatic<S>) => Promise<Response> },
  ): Promise<Response> {
    // The signal must be read before anything is awaited; later the server no longer reports that a client disconnected.
    void c.req.raw.signal;
    if (!isJson(c.req.raw)) {
      throw new EnvironmentRefusal(415, 'The content-type of the body is not JSON. Send the header content-type: application/json.');
    }
    await this.#turns.next();
    return this.#budget.withBody(c.req.raw, (body) => {
      const { value, rounded } = parsed(body, this.#isWord);
      const check = schemaCheck(schema);
      if (!check(value) || !(rounded === value || check(rounded)))
        throw new EnvironmentRefusal(422, `${schemaProblem(check, 'The body')}. ${this.#describedBy} describes the request.`);
      return use(value);
    });
  }
}

function parsed(body: ReadBody, isWord: JsonRequestsOptions['isWord']): RequestJson {
  if (!body.ok) throw new EnvironmentRefusal(body.status, `${body.detail}.`, { cause: body.cause });
  try {
    return readRequestJson(body.text, isWord);
  } catch {
    return parsedLoosely(body.text, isWord);
  }
}

/** Python writes NaN and infinities, which JSON lacks. They fail their own rollout, not the whole request. */
function parsedLoosely(text: string, isWord: JsonRequestsOptions['isWord']): RequestJson {
  try {
    return readRequestJson(withoutNonFinite(text), isWord);
  } catch (cause) {
    throw new EnvironmentRefusal(422, `The body is not JSON: ${(cause as Error).message}.`, { cause });
  }
}
