/** Adapters for what upstream does with its executor: validity of programs, verdicts on answers, and the reward manager around them. */
import {
  judgeSolutions,
  parseInputsMessage,
  parseProposal,
  parseReply,
  type ProposalOptions,
  proposeReward,
  solutionText,
  solveReward,
  type TaskRecord,
} from 'vf-search/environments/self-play-code';
import { type CodeRewrite, DEFAULT_LIMITS, parseLiteral } from 'vf-search/execution';
import { sandbox } from './sandbox.ts';
import type { Adapter, VectorCase } from './vectors.ts';

/** Upstream's limit of a program. */
const LIMITS = { ...DEFAULT_LIMITS, seconds: 10 };

interface CheckAll {
  readonly code: string;
  readonly input: string;
  readonly banned: readonly string[];
}

interface Options {
  readonly parse_output: boolean;
  readonly reject_multiple_functions: boolean;
  readonly code_location: 'first' | 'last';
  readonly f_replace_location: NonNullable<ProposalOptions['rename']>;
  readonly remove_after_return: boolean;
  readonly remove_comments: boolean;
  readonly remove_print: boolean;
  readonly reject_test_input_in_code: boolean;
}

interface Solve {
  readonly kind: 'i' | 'o' | 'f';
  readonly reply: string;
  readonly code: string;
  readonly input?: string;
  readonly output?: string;
  readonly hidden_inputs?: readonly string[];
  readonly hidden_outputs?: readonly string[];
  readonly code_f_reward_type?: 'binary' | 'accuracy' | 'if_one_correct';
}

interface Propose {
  readonly kind: 'i' | 'o' | 'f';
  readonly reply: string;
  readonly reference?: string;
  readonly accuracy: number;
  readonly banned: readonly string[];
}

const EXPRESSION = 'the value of an expression has no literal, so that it cannot be compared outside of the sandbox';
const SET_ORDER = 'the order of a set in its repr is that of the sandbox';

function declared({ tags }: VectorCase): string | undefined {
  return tags.includes('expression') ? EXPRESSION : tags.includes('set_order') ? SET_ORDER : undefined;
}

export const executorAdapters: Readonly<Record<string, Adapter>> = {
  azr_check_all: { actual: validity, declared },
  azr_parse_code_input_output: { actual: parsedProposal },
  azr_eval_input_prediction: {
    actual: (input: { code: string; gold_output: string; answer: string }) =>
      accuracy({ kind: 'code_i', snippet: input.code, input: '', output: input.gold_output, imports: [] }, input.answer),
    declared,
  },
  azr_eval_output_prediction: {
    actual: (input: { gold_output: string; answer: string }) =>
      accuracy({ kind: 'code_o', snippet: '', input: '', output: input.gold_output, imports: [] }, input.answer),
    declared,
  },
  azr_solve_reward: { actual: solved, declared },
  azr_propose_reward: { actual: proposed, declared },
};

async function accuracy(task: TaskRecord, solution: string, functionScore: 'binary' | 'accuracy' | 'if_one_correct' = 'accuracy'): Promise<number> {
  const [verdict] = await judgeSolutions(task, [solution], { ...(await sandbox()), limits: LIMITS, functionScore });
  return verdict!.accuracy;
}

/** Banned names by upstream's rule; the same literal from two interpreters with two seeds of hashes, which a plain program cannot tell apart. */
async function validity({ code, input, banned }: CheckAll): Promise<{ valid: boolean; output: string | null }> {
  const { executor, signal } = await sandbox();
  const { syntaxError, banned: found, plain } = await executor.analyse(code, { banned, bannedRule: 'modules', signal });
  if (syntaxError !== null || found.length > 0) return { valid: false, output: null };
  const outputs: string[] = [];
  for (const hashSeed of plain ? [0] : [0, 1]) {
    const result = await executor.run({ code, calls: [input], hashSeed, limits: LIMITS }, { signal });
    const [call] = result.kind === 'ran' ? result.calls : [];
    if (call === undefined || 'error' in call || !parseLiteral(call.repr).ok) return { valid: false, output: null };
    outputs.push(call.repr);
  }
  const [first, second = first] = outputs as [string, string?];
  return first === second ? { valid: true, output: first } : { valid: false, output: null };
}

async function parsedProposal({ text, options }: { text: string; options: Options }): Promise<unknown> {
  const parsed = parseProposal(text, {
    parseOutput: options.parse_output,
    rejectMultipleFunctions: options.reject_multiple_functions,
    codeLocation: options.code_location,
    rename: options.f_replace_location,
    rejectTestInput: options.reject_test_input_in_code,
  });
  if (parsed.kind === 'fault') return { ok: false, result: {} };
  const { executor, signal } = await sandbox();
  const rewrites: CodeRewrite[] = [
    ...(options.remove_comments ? ['comments' as const] : []),
    ...(options.remove_after_return ? ['definitions' as const] : []),
    ...(options.remove_print ? ['prints' as const] : []),
  ];
  const { syntaxError, imports, code } = await executor.analyse(parsed.code, { banned: [], rewrites, signal });
  // Upstream raises where it removes prints, and else keeps a text that is no program.
  if (syntaxError !== null && options.remove_print) return { ok: 'SyntaxError', result: {} };
  const kept = syntaxError !== null || rewrites.length === 0 ? parsed.code : code;
  return { ok: true, result: { code: kept, input: parsed.input, output: parsed.output, imports } };
}

async function solved(input: Solve): Promise<unknown> {
  const task = taskOf(input);
  const { answer, isWellFormed } = parseReply(input.reply);
  const solution = solutionText(task.kind, answer, 'full');
  if (!isWellFormed || solution === null) return { reward: solveReward({ isWellFormed: false, accuracy: 0 }), accuracy: 0, format: 0 };
  const share = await accuracy(task, solution, input.code_f_reward_type);
  return { reward: solveReward({ isWellFormed, accuracy: share }), accuracy: share, format: 1 };
}

/** Upstream has the hidden inputs by themselves; here they are the second half of all. */
function taskOf({ kind, code: snippet, input = '', output = '', hidden_inputs: inputs = [], hidden_outputs: outputs = [] }: Solve): TaskRecord {
  if (kind !== 'f') return { kind: `code_${kind}`, snippet, input, output, imports: [] };
  return { kind: 'code_f', snippet, inputs: [...inputs, ...inputs], outputs: [...outputs, ...outputs], message: '', imports: [] };
}

async function proposed({ kind, reply, reference = '', accuracy: share, banned }: Propose): Promise<unknown> {
  const { answer, isWellFormed } = parseReply(reply);
  const isValid = kind === 'f' ? await describes(reference, answer) : await invents(answer, banned);
  const format = isValid && isWellFormed;
  return { reward: proposeReward({ isValid: format, accuracy: share }), format: format ? 1 : 0 };
}

async function invents(answer: string, banned: readonly string[]): Promise<boolean> {
  const parsed = parseProposal(answer);
  return parsed.kind === 'program' && (await validity({ ...parsed, banned })).valid;
}

async function describes(code: string, answer: string): Promise<boolean> {
  const parsed = parseInputsMessage(answer);
  if (parsed.kind === 'fault') return false;
  for (const input of parsed.inputs) if (!(await validity({ code, input, banned: [] })).valid) return false;
  return true;
}
