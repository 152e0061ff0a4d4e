/**
 * OpenEnv's reset, step and state over HTTP: each reset begins a new session, which later requests name by its episode's id. The original makes a new environment
 * for each request instead, so its steps over HTTP reach no episode.
 */
import { LRUCache } from 'lru-cache';
import type { EpisodeStateColumns, ResetAnswer, ResetData, StepAnswer } from '../../../schemas/environment-server/openenv.ts';
import { EnvironmentRefusal } from '../environment-refusal.ts';
import { OpenEnvSession, type OpenEnvSessionOptions } from './open-env-session.ts';
import { wireErrorOf } from './wire-error.ts';

export interface HttpSessionsOptions extends OpenEnvSessionOptions {
  readonly maxSessions: number;
  readonly idleTimeoutMs: number;
}

export class HttpSessions {
  readonly #options: OpenEnvSessionOptions;
  /** By the episode's id, while it is played. Twice as many as can be played: unused sessions are forgotten a little later than their episodes. */
  readonly #sessions: LRUCache<string, OpenEnvSession>;

  constructor({ maxSessions, idleTimeoutMs, ...options }: HttpSessionsOptions) {
    this.#options = options;
    this.#sessions = new LRUCache({ max: 2 * maxSessions, ttl: idleTimeoutMs, updateAgeOnGet: true, dispose: (session) => session.close() });
  }

  async reset(data: ResetData): Promise<ResetAnswer> {
    const name = data.episode_id ?? null;
    if (name !== null && this.#sessions.peek(name)?.hasEnded === false) {
      throw new EnvironmentRefusal(409, `An episode ${JSON.stringify(name)} is being played. Name another one, or leave episode_id out.`);
    }
    const session = new OpenEnvSession(this.#options);
    const asked = session.reset(data);
    // It has begun or not before anything is awaited.
    if (session.episodeId !== null) this.#sessions.set(session.episodeId, session);
    return this.#played(session, asked);
  }

  step(episodeId: string, action: unknown): Promise<StepAnswer> {
    const session = this.#find(episodeId, this.#sessions.peek(episodeId, { allowStale: true }));
    this.#sessions.set(episodeId, session);
    return this.#played(session, session.step(action));
  }

  /** Without an id, returns the state of a session that has not begun, as the original answers. Asking for it does not use the session. */
  state(episodeId: string | undefined): EpisodeStateColumns {
    return episodeId === undefined ? { episode_id: null, step_count: 0 } : this.#find(episodeId, this.#sessions.peek(episodeId)).state;
  }

  #find(episodeId: string, session: OpenEnvSession | undefined): OpenEnvSession {
    if (session !== undefined) return session;
    const shown = JSON.stringify(episodeId.length > 64 ? `${episodeId.slice(0, 64)}…` : episodeId);
    throw new EnvironmentRefusal(404, `No episode ${shown} is being played: it has ended, or nobody used it for too long. POST /reset begins one.`);
  }

  async #played<T>(session: OpenEnvSession, asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      throw wireErrorOf(error)?.refusal ?? error;
    } finally {
      const id = session.episodeId;
      const isHeld = id !== null && this.#sessions.peek(id, { allowStale: true }) === session;
      if (isHeld && session.hasEnded) this.#sessions.delete(id);
      // It is unused from now on.
      else if (isHeld) this.#sessions.set(id, session);
    }
  }
}
