/**
 * Decides whether a proposal brings a task: reads it, has the sandbox parse and run its program, and keeps the results as Python writes them. A value without a literal
 * form, a banned name, and a program that does not always return the same make it invalid.
 */
import { TimeoutError } from 'vf-search';
import type { CallResult, CodeExecutor, CodeFacts, ExecutionLimits, ExecutionResult } from 'vf-search/execution';
import { parseLiteral } from 'vf-search/execution';
import {
  type ParsedInputs,
  type ParsedProposal,
  parseInputsMessage,
  parseMiniInputsMessage,
  parseMiniProposal,
  parseProposal,
} from './parse-proposal.ts';
import type { ProposalResult } from './proposals.ts';
import type { PromptStyle } from './prompt.ts';
import type { FunctionRecord, IoRecord, TaskKind } from './records.ts';
import { parseReply } from './reply.ts';

export interface Examiner {
  readonly executor: CodeExecutor;
  readonly limits: ExecutionLimits;
  readonly prompt: PromptStyle;
  readonly banned: readonly string[];
  /** `modules` is upstream's narrower rule, which no dotted name matches. @default 'any_spelling' */
  readonly bannedRule?: 'any_spelling' | 'modules';
  /**
   * Which functions a program may have beside its own: `inner` those within it, `none` as upstream by default, `all` as upstream with
   * `reject_multiple_functions=False`. Mini programs have one function. @default 'inner'
   */
  readonly otherFunctions?: 'inner' | 'none' | 'all';
  readonly inputCount: number;
  /** Whether the program, without comments and in Python's own spelling, is held out. */
  readonly isHeldOut: (code: string) => Promise<boolean>;
}

export interface ProposalRequest {
  readonly kind: TaskKind;
  /** The program to describe, for `code_f`; else null. */
  readonly program: string | null;
}

/** Two seeds of Python's hashes: what depends on the order of a set differs between them. */
const HASH_SEEDS = [0, 1] as const;

const invalid = (reason: string): ProposalResult => ({ kind: 'invalid', reason });

/** Throws ExecutionError if no program can be run, CancelledError if the signal aborts. */
export async function examineProposal(
  reply: string,
  { kind, program }: ProposalRequest,
  examiner: Examiner,
  signal: AbortSignal,
): Promise<ProposalResult> {
  if (kind === 'code_f') return examineInputs(parsedInputs(reply, examiner), program ?? '', examiner, signal);
  const parsed = parsedProgram(reply, examiner);
  if (parsed === null) return invalid('format');
  if (parsed.kind === 'fault') return invalid(parsed.fault);
  const facts = await factsOf(parsed.code, examiner, signal);
  if (facts === null) return invalid('unreadable');
  if (facts.syntaxError !== null) return invalid('syntax');
  if (facts.banned.length > 0) return invalid('banned');
  if (facts.entry === null && examiner.otherFunctions !== 'all') return invalid('several_functions');
  if (await examiner.isHeldOut(facts.code)) return { kind: 'held_out' };
  const results = await resultsOf(parsed.code, [parsed.input], facts, examiner, signal);
  if ('reason' in results) return invalid(results.reason);
  const output = kind === 'code_e' ? errorName(results.calls[0]!) : literalOf(results.calls[0]!);
  if (output === null) return invalid('error' in results.calls[0]! ? 'raises' : 'no_literal');
  const snippet = examiner.prompt === 'mini' ? parsed.code : facts.code;
  return { kind: 'valid', record: { kind, snippet, input: parsed.input, output, imports: facts.imports } satisfies IoRecord };
}

/** Null for a reply in a wrong format. */
function parsedProgram(reply: string, { prompt, otherFunctions }: Examiner): ParsedProposal | null {
  if (prompt === 'mini') return parseMiniProposal(reply);
  const { answer, isWellFormed } = parseReply(reply, prompt);
  return isWellFormed ? parseProposal(answer, { rejectMultipleFunctions: otherFunctions === 'none' }) : null;
}

function parsedInputs(reply: string, { prompt, inputCount: numInputs }: Examiner): ParsedInputs | null {
  if (prompt === 'mini') return parseMiniInputsMessage(reply, { numInputs });
  const { answer, isWellFormed } = parseReply(reply, prompt);
  return isWellFormed ? parseInputsMessage(answer, { numInputs }) : null;
}

async function examineInputs(parsed: ParsedInputs | null, snippet: string, examiner: Examiner, signal: AbortSignal): Promise<ProposalResult> {
  if (parsed === null) return invalid('format');
  if (parsed.kind === 'fault') return invalid(parsed.fault);
  const { inputs, message } = parsed;
  const facts = await factsOf(snippet, examiner, signal);
  if (facts === null) return invalid('unreadable');
  const results = await resultsOf(snippet, inputs, facts, examiner, signal);
  if ('reason' in results) return invalid(results.reason);
  const outputs = results.calls.map(literalOf);
  if (outputs.some((output) => output === null)) return invalid(results.calls.some((call) => 'error' in call) ? 'raises' : 'no_literal');
  return {
    kind: 'valid',
    record: { kind: 'code_f', snippet, inputs, outputs: outputs as string[], message, imports: facts.imports } satisfies FunctionRecord,
  };
}

/** Null for a program that the parser does not finish, such as one of a million brackets. */
async function factsOf(code: string, { executor, banned, bannedRule = 'any_spelling' }: Examiner, signal: AbortSignal): Promise<CodeFacts | null> {
  try {
    return await executor.analyse(code, { banned, bannedRule, signal });
  } catch (error) {
    if (error instanceof TimeoutError && !signal.aborted) return null;
    throw error;
  }
}

type Results = { readonly calls: readonly CallResult[] } | { readonly reason: string };

/** Runs a program that is not plain under two hash seeds, each in a fresh interpreter; a plain one cannot tell them apart. */
async function resultsOf(
  code: string,
  calls: readonly string[],
  { plain }: CodeFacts,
  { executor, limits }: Examiner,
  signal: AbortSignal,
): Promise<Results> {
  const seeds = plain ? HASH_SEEDS.slice(0, 1) : HASH_SEEDS;
  const runs: ExecutionResult[] = [];
  for (const hashSeed of seeds) runs.push(await executor.run({ code, calls, hashSeed, limits }, { signal }));
  const [first, second = first] = runs as [ExecutionResult, ExecutionResult?];
  if (first.kind !== 'ran') return { reason: first.kind };
  if (second.kind !== 'ran') return { reason: second.kind };
  const isSame = JSON.stringify(first.calls.map(comparable)) === JSON.stringify(second.calls.map(comparable));
  return isSame ? { calls: first.calls } : { reason: 'not_deterministic' };
}

/** The message of an error may hold an address. */
function comparable(call: CallResult): string {
  return 'repr' in call ? `= ${call.repr}` : `raised ${call.error}`;
}

function literalOf(call: CallResult): string | null {
  if (!('repr' in call)) return null;
  // An address says where the interpreter put an object: nobody can work it out.
  return parseLiteral(call.repr).ok && !/\bat 0x[0-9a-fA-F]+/.test(call.repr) ? call.repr : null;
}

function errorName(call: CallResult): string {
  return 'error' in call ? call.error : 'NoError';
}
