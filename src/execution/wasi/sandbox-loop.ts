/**
 * The work of one sandbox thread: a warm interpreter waits for jobs inside its own read of standard input. A job that needs a new interpreter gets it in the same
 * thread, on top of the waiting one, and leaves nothing behind.
 * A reply counts if it carries the token of its job. The token separates a program's stray writes from the runner's. It is no secret from a program that searches
 * its own interpreter, but such a program is not plain. It has an interpreter to itself, so a forged reply can say no more than its function could return.
 */
import { collectGarbage } from '../collect-garbage.ts';
import { decodeFrame, encodeFrame } from '../frames.ts';
import { Interpreter, type Program } from './interpreter.ts';
import type { FromThread, ThreadAnswer, ThreadJob, ThreadSetup } from './messages.ts';
import { InterpreterExit } from './wasi-host.ts';

/** A warm interpreter that holds more than this at the end of a job is replaced, because its memory never shrinks. */
const WARM_BYTES = 24 * 2 ** 20;
/** The length of a frame, the length of its first field, and the token, a UUID. */
const REPLY_HEAD = 4 + 4 + 36;

export class SandboxLoop {
  /** The modules to load: sources for the first interpreter, compiled code after it has started. */
  #program: Program;
  readonly #warm: ThreadSetup['warm'];
  readonly #next: () => ThreadJob;
  readonly #post: (message: FromThread) => void;
  /** A job that the warm interpreter gave back. */
  #returned: ThreadJob | null = null;

  /** @param next waits for the next job */
  constructor({ program, warm }: Omit<ThreadSetup, 'posted' | 'cpuMs'>, next: () => ThreadJob, post: (message: FromThread) => void) {
    this.#program = program;
    this.#warm = warm;
    this.#next = next;
    this.#post = post;
  }

  /** Serves until the thread ends; returns only if no warm interpreter starts. */
  run(): void {
    for (;;) {
      const session = new WarmSession(this.#program, this.#warm, {
        compiled: (modules) => (this.#program = { ...this.#program, form: 'code', modules }),
        next: (isFirst) => this.#nextShared(isFirst),
        done: (answer) => this.#finish(answer),
      });
      const { exit, jobs } = session.run();
      if (exit.reason === 'finished') continue;
      if (jobs === 0) return this.#post({ kind: 'failed', message: `${exit.message} (${session.lastError.trim()})` });
      if (session.isBusy) this.#post({ ...ended(exit), restarts: true });
    }
  }

  /** The next job for the warm interpreter. Jobs that need a new interpreter are done on the way. */
  #nextShared(isFirst: boolean): ThreadJob {
    if (isFirst) this.#post({ kind: 'ready', program: this.#program });
    for (;;) {
      const job = this.#returned ?? this.#next();
      this.#returned = null;
      if (job.mode === 'shared') return job;
      this.#post({ ...runAlone(this.#program, job), restarts: false });
      // That interpreter's 10 MB are now garbage, which V8 would keep for several more such jobs. Collecting takes 4 ms; the job takes 70 ms.
      collectGarbage();
    }
  }

  #finish({ job, fields, restarts }: WarmReply): void {
    if (isStatus(fields, 'own') || isStatus(fields, 'spent')) this.#returned = { ...job, mode: 'own' };
    else this.#post({ kind: 'reply', fields, restarts });
  }
}

interface WarmEvents {
  /** Names and code of the modules that the interpreter has loaded from sources. */
  compiled(modules: readonly string[]): void;
  /** @param isFirst the interpreter has started and takes its first job */
  next(isFirst: boolean): ThreadJob;
  done(reply: WarmReply): void;
}

interface WarmReply {
  readonly job: ThreadJob;
  readonly fields: readonly Uint8Array[];
  /** The interpreter ends instead of taking another job. */
  readonly restarts: boolean;
}

/** One warm interpreter, from its start to its end. */
class WarmSession {
  readonly #interpreter: Interpreter;
  readonly #events: WarmEvents;
  #exchange: Exchange | null = null;
  #jobs = 0;
  #isSpent = false;

  constructor(program: Program, warm: ThreadSetup['warm'], events: WarmEvents) {
    this.#events = events;
    this.#interpreter = new Interpreter({ program, ...warm, read: (most) => this.#read(most), reply: (bytes) => this.#reply(bytes) });
  }

  /** True while the interpreter has a job without a reply. */
  get isBusy(): boolean {
    return this.#exchange !== null;
  }

  get #hasGrown(): boolean {
    return this.#jobs > 0 && this.#interpreter.memoryBytes > WARM_BYTES;
  }

  get lastError(): string {
    return this.#interpreter.lastError;
  }

  run(): { readonly exit: InterpreterExit; readonly jobs: number } {
    const exit = this.#interpreter.run();
    return { exit, jobs: this.#jobs };
  }

  #read(most: number): Uint8Array {
    if (this.#exchange === null) {
      if (this.#isSpent || this.#hasGrown) throw new InterpreterExit('finished', 'The interpreter takes no further job.');
      const job = this.#events.next(this.#jobs === 0);
      this.#jobs += 1;
      this.#interpreter.limitOutput(job.outputBytes);
      this.#exchange = new Exchange(job);
    }
    return this.#exchange.take(most);
  }

  #reply(bytes: Uint8Array): boolean {
    if (this.#jobs === 0) return this.#takeModules(bytes);
    const fields = this.#exchange?.reply(bytes) ?? null;
    if (fields === null) return false;
    const { job } = this.#exchange!;
    this.#exchange = null;
    this.#isSpent = isStatus(fields, 'spent');
    this.#events.done({ job, fields, restarts: this.#hasGrown });
    return true;
  }

  /** Before its first job an interpreter has run only our own code. */
  #takeModules(bytes: Uint8Array): boolean {
    const [kind, ...modules] = decodeFrame(bytes.slice())?.map((field) => Buffer.from(field).toString()) ?? [];
    if (kind !== 'code') return false;
    this.#events.compiled(modules);
    return true;
  }
}

/** One job and its reply. */
class Exchange {
  readonly job: ThreadJob;
  readonly #token: string;
  #unread: Uint8Array;

  constructor(job: ThreadJob) {
    this.job = job;
    this.#token = crypto.randomUUID();
    this.#unread = encodeFrame([this.#token, job.mode, ...job.fields]);
  }

  take(most: number): Uint8Array {
    const taken = this.#unread.subarray(0, most);
    this.#unread = this.#unread.subarray(taken.length);
    return taken;
  }

  /** The fields of the reply after its token; null if these bytes are not a reply to this job. */
  reply(bytes: Uint8Array): readonly Uint8Array[] | null {
    if (bytes.length > this.job.replyBytes || !Buffer.from(bytes.subarray(0, REPLY_HEAD)).includes(this.#token)) return null;
    return decodeFrame(bytes.slice())?.slice(1) ?? null;
  }
}

function isStatus(fields: readonly Uint8Array[], status: string): boolean {
  return fields.length === 1 && Buffer.from(fields[0]!).toString() === status;
}

function runAlone(program: Program, job: ThreadJob): ThreadAnswer {
  const exchange = new Exchange(job);
  let reply: readonly Uint8Array[] | null = null;
  const interpreter = new Interpreter({
    program,
    hashSeed: job.hashSeed,
    memoryPages: job.memoryPages,
    read: (most) => exchange.take(most),
    reply: (bytes) => {
      reply = exchange.reply(bytes);
      if (reply !== null) throw new InterpreterExit('finished', 'The job is done.');
      return false;
    },
  });
  interpreter.limitOutput(job.outputBytes);
  const exit = interpreter.run();
  return reply === null ? ended(exit) : { kind: 'reply', fields: reply };
}

function ended({ reason, message }: InterpreterExit): ThreadAnswer {
  return { kind: 'ended', failure: reason === 'output_too_long' ? 'output_too_long' : 'crashed', detail: message };
}
