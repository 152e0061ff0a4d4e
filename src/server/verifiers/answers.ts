/** Answers the requests of the verifiers wire, each independently, in the order in which they are ready. */
import type { XStatic } from 'typebox/schema';
import { CancelledError, thrownText, VfError } from '../../core/errors.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import { CancelRequestSchema, MOST_TASKS, RunRequestSchema, TasksRequestSchema } from '../../schemas/verifiers-wire/requests.ts';
import { taskOf } from '../environment/task-page.ts';
import type { ServedEnvironment } from '../environment/served-environment.ts';
import { boundedMsgpack } from './bounded-msgpack.ts';
import { plannedRun, type PlanOptions } from './planned-run.ts';
import type { VerifiersRuns } from './verifiers-runs.ts';
import type { WireLibraries } from './wire-libraries.ts';
import type { RequestFrames, WireSocket } from './wire-socket.ts';

export interface AnswersOptions extends PlanOptions {
  readonly msgpack: WireLibraries['msgpack'];
  readonly socket: Pick<WireSocket, 'requests' | 'send'>;
  readonly served: ServedEnvironment;
  readonly runs: VerifiersRuns;
  /** Called for failures of the server itself. */
  readonly onFailure: (error: unknown) => void;
}

/** Its request was wrong: `ValueError`, as a server in Python would say. */
class RequestProblem extends VfError {
  override readonly name = 'ValueError';
}

/** Memory of a decoded value in addition to its bytes. */
const BYTES_PER_VALUE = 64;
/** The client's own ids are 32 digits. */
const MOST_ID_BYTES = 1024;

type Reply = object;

export class Answers {
  readonly #options: AnswersOptions;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  /** Runs until the socket is closed. */
  async receive(): Promise<void> {
    for await (const frames of this.#options.socket.requests()) {
      if (frames[1].length > MOST_ID_BYTES) continue;
      const answering: Promise<void> = this.#answer(frames).finally(() => this.#pending.delete(answering));
      this.#pending.add(answering);
    }
  }

  /** Resolves once every request that has arrived is answered. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Never rejects. */
  async #answer(frames: RequestFrames): Promise<void> {
    let reply: Reply;
    try {
      // Called before anything is awaited: a run is registered at once, so that a cancellation right behind it finds it.
      reply = await this.#reply(frames);
    } catch (error) {
      reply = this.#refusal(error);
    }
    try {
      this.#send(frames, 'reply', reply);
    } catch (error) {
      this.#send(frames, 'reply', this.#refusal(error));
    }
  }

  #reply(frames: RequestFrames): Promise<Reply> | Reply {
    const [client, , method, payload] = frames;
    const name = method.toString('utf8', 0, 64);
    switch (name) {
      case 'health':
        return { success: true, error: null };
      case 'run':
        return this.#run(frames);
      case 'cancel': {
        const { request_id: requestId } = this.#read(payload, CancelRequestSchema).value;
        return { success: true, error: null, cancelled: this.#options.runs.cancel(client.toString('hex'), requestId) };
      }
      case 'tasks':
        return this.#tasks(payload);
      default:
        return { success: false, error: `unknown method '${name}'` };
    }
  }

  async #run(frames: RequestFrames): Promise<Reply> {
    const { served, policies, variables, runs } = this.#options;
    const [client, requestId, , payload] = frames;
    const { value, bytes } = this.#read(payload, RunRequestSchema);
    const run = plannedRun(value, { served, policies, variables });
    const { delta, reply } = await runs.play(client.toString('hex'), requestId.toString(), run, bytes);
    this.#send(frames, 'delta', delta);
    return reply;
  }

  #tasks(payload: Buffer): Reply {
    const { environment, split, rows } = this.#options.served;
    const { offset = 0, limit = MOST_TASKS } = this.#read(payload, TasksRequestSchema).value;
    const count = Math.max(0, Math.min(limit, rows.length - offset));
    const tasks = Array.from({ length: count }, (_, i) => taskOf(rows.at(offset + i)));
    // A row's info may hold values that JSON lacks.
    return { success: true, error: null, env_id: environment.id, split, total: rows.length, tasks: JSON.parse(JSON.stringify(tasks)) as unknown };
  }

  /** Throws RequestProblem. `bytes`: about what the value takes in memory. */
  #read<const S extends object>(payload: Buffer, schema: S): { readonly value: XStatic<S>; readonly bytes: number } {
    const checked = boundedMsgpack(payload);
    if ('problem' in checked) throw new RequestProblem(`the payload is not MessagePack that can be read: ${checked.problem}`);
    const value = this.#decoded(payload);
    const check = schemaCheck(schema);
    if (!check(value)) throw new RequestProblem(schemaProblem(check, 'the payload'));
    return { value, bytes: payload.length + BYTES_PER_VALUE * checked.values };
  }

  #decoded(payload: Buffer): unknown {
    try {
      return this.#options.msgpack.decode(payload);
    } catch (cause) {
      throw new RequestProblem(`the payload cannot be decoded: ${thrownText(cause)}`, { cause });
    }
  }

  #send([client, requestId]: RequestFrames, kind: 'delta' | 'reply', data: object): void {
    this.#options.socket.send(client, requestId, kind, this.#options.msgpack.encode(data, { ignoreUndefined: true }));
  }

  #refusal(error: unknown): Reply {
    const { served, onFailure } = this.#options;
    if (error instanceof CancelledError) return { success: false, error: 'Cancelled: rollout aborted' };
    if (!(error instanceof VfError)) onFailure(error);
    const type = error instanceof Error ? error.name : 'Error';
    return { success: false, error: served.redact(`${type}: ${thrownText(error)}`) };
  }
}
