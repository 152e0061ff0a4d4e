/**
 * What servers of chat APIs are known to answer, written down from their documentation and from public reports: one file per server or model in `replies/`. No provider was called
 * for them. scripts/providers-doc.ts makes docs/providers.md of the same files.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Recording {
  readonly server: string;
  readonly model: string;
  /** Documentation and reports. */
  readonly sources: readonly string[];
  /** Cells of the table in docs/providers.md. */
  readonly doc: Readonly<Record<'set' | 'sent' | 'read' | 'approximated', string>>;
  readonly plays: readonly Play[];
}

/** One conversation. */
export interface Play {
  /** A claim, for the title of the test. */
  readonly name: string;
  /** Cases of the project's list of public faults that it plays. */
  readonly cases?: readonly string[];
  readonly stop?: readonly string[];
  /** Offers the tool `search` natively. */
  readonly tools?: true;
  /** What the user sets. @default nothing */
  readonly sampling?: { readonly temperature?: number; readonly topP?: number };
  /** Requests that the server refuses; the first that fits decides. */
  readonly refusals?: readonly Refusal[];
  /** Answers to accepted requests in turn; the last repeats. A request without tools gets the last. */
  readonly answers: readonly Answer[];
  readonly expect: Expected;
}

interface Refusal extends Answer {
  readonly if: Condition;
}

/** All parts must hold. */
export interface Condition {
  /** Fields of the request. */
  readonly has?: readonly string[];
  /** Fields that the request does not have, or has with another value. */
  readonly lacks?: Readonly<Record<string, unknown>>;
  /** Some assistant message with tool calls lacks this field. */
  readonly callerLacks?: string;
  /** Some tool call lacks this field. */
  readonly callLacks?: string;
  /** Some assistant message has this field. */
  readonly assistantHas?: string;
  /** Some assistant message has no text and no tool calls. */
  readonly emptyAssistant?: true;
}

export interface Answer {
  /** @default 200 */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The whole body; a text is sent as it is. */
  readonly body?: unknown;
  /** Short for a body with this choice. */
  readonly choice?: Readonly<Record<string, unknown>>;
  /** Its token counts. @default a prompt that grows with the conversation */
  readonly usage?: unknown;
}

interface Expected {
  /** One per turn of the policy; the role and the pipeline get the first, or with tools the last. */
  readonly turns?: readonly ExpectedTurn[];
  readonly failure?: ExpectedFailure;
  /** About the last request. */
  readonly sent?: {
    readonly has?: readonly string[];
    readonly lacks?: readonly string[];
    /** Part of the policy's last assistant message. */
    readonly assistant?: Readonly<Record<string, unknown>>;
  };
  /** Requests of the policy. @default not checked */
  readonly requests?: number;
}

export interface ExpectedTurn {
  /** With the stop string that ended it, without tool calls. */
  readonly text: string;
  /** @default none */
  readonly reasoning?: string;
  /** @default "stop" */
  readonly finish?: 'stop' | 'length';
  /** @default null */
  readonly stopReason?: string | number | null;
  /** Nobody knows whether a stop string ended it. @default false */
  readonly isGuess?: boolean;
  /** @default false */
  readonly wasIgnored?: boolean;
  /** @default none */
  readonly calls?: readonly { readonly name: string; readonly arguments: unknown }[];
}

export interface ExpectedFailure {
  /** `retryable`: asked again, then failed. `final`: not asked again. `endsRun`: no later request can succeed. `tooLong`: the end of an episode. */
  readonly kind: 'retryable' | 'final' | 'endsRun' | 'tooLong';
  /** A regular expression. */
  readonly message: string;
}

const FOLDER = join(import.meta.dirname, 'replies');

/** By name of the file, in alphabetical order of the servers. */
export function readRecordings(): readonly Recording[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  return files
    .map((name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Recording)
    .toSorted((a, b) => (a.server + a.model).localeCompare(b.server + b.model, 'en'));
}
