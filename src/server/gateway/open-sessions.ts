/** Finds the session of a request by what nobody can guess: the id in its path, or its key. */
import { hash, randomBytes } from 'node:crypto';
import type { GatewaySession } from '../../agents/agent-gateway.ts';
import { AgentRefusal } from '../../agents/agent-refusal.ts';
import { bodyCache } from './known-bodies.ts';
import { OpenSession } from './open-session.ts';

/** Sessions that ended, which are told apart from those that never were. */
const MOST_ENDED = 4096;

const ENDED = new AgentRefusal(400, null, 'The rollout has ended, so the policy answers no further request of it.');
const NO_SESSION = new AgentRefusal(404, null, 'There is no session at this address. Use the base URL of the session as it was given.');
const WRONG_KEY = new AgentRefusal(401, null, 'The API key is not that of this session. Use the key and the base URL of one session.');
const NO_KEY = new AgentRefusal(
  401,
  null,
  'The request names no session. Send its key (authorization: Bearer KEY, or x-api-key: KEY), or use its base URL.',
);

export class OpenSessions {
  /** By the digest of an id or a key, so that a look-up takes as long for a key that is nearly right. Null: it has ended. */
  readonly #sessions = new Map<string, OpenSession | null>();
  readonly #ended: string[] = [];
  readonly #bodies = bodyCache();

  open(answers: GatewaySession): OpenSession {
    const session = new OpenSession(answers, { id: secret(), apiKey: `vf-${secret()}`, bodies: this.#bodies });
    for (const name of namesOf(session)) this.#sessions.set(name, session);
    return session;
  }

  end(session: OpenSession): void {
    session.end(ENDED);
    for (const name of namesOf(session)) {
      if (this.#sessions.get(name) === undefined || this.#sessions.get(name) === null) continue;
      this.#sessions.set(name, null);
      this.#ended.push(name);
    }
    while (this.#ended.length > MOST_ENDED) this.#sessions.delete(this.#ended.shift()!);
  }

  endAll(): void {
    for (const session of this.#sessions.values()) if (session !== null) this.end(session);
  }

  /**
   * Throws AgentRefusal: 404 for an unknown id, 401 for another session's key or for none, 400 for a session that has ended.
   * @param id of the path; null if it has none
   * @param headers of the request
   */
  find(id: string | null, headers: Pick<Headers, 'get'>): OpenSession {
    const named = keysOf(headers).map((key) => this.#sessions.get(digest(key)));
    const found = id === null ? named.find((session) => session !== undefined) : this.#sessions.get(digest(id));
    if (found === undefined) throw id === null ? NO_KEY : NO_SESSION;
    // A key of nobody is one that a client must have and that says nothing.
    if (named.some((other) => other !== undefined && other !== null && other !== found)) throw WRONG_KEY;
    if (found === null) throw ENDED;
    return found;
  }
}

/** 192 bits, in 32 characters that stand in a path as they are. */
function secret(): string {
  return randomBytes(24).toString('base64url');
}

function digest(text: string): string {
  return hash('sha256', text, 'base64');
}

function namesOf({ id, apiKey }: OpenSession): readonly string[] {
  return [digest(id), digest(apiKey)];
}

function keysOf(headers: Pick<Headers, 'get'>): readonly string[] {
  const bearer = /^bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1];
  return [bearer, headers.get('x-api-key')].filter((key) => typeof key === 'string');
}
