/** Adapters for what upstream does with its executor: validity of programs, verdicts on answers, and the reward manager around them. */
import {
  examineProposal,
  type Examiner,
  judgeSolutions,
  parseProposal,
  parseReply,
  type ProposalOptions,
  type ProposalRequest,
  type ProposalResult,
  proposeReward,
  solutionText,
  solveReward,
  type TaskRecord,
} from 'vf-search/environments/self-play-code';
import { type CodeRewrite, DEFAULT_LIMITS } from 'vf-search/execution';
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

/** A proposal that holds the program and the input. */
async function validity({ code, input, banned }: CheckAll): Promise<{ valid: boolean; output: string | null }> {
  const reply = `<think></think><answer>\n\`\`\`python\n${code}\n\`\`\`\n\`\`\`input\n${input}\n\`\`\`\n</answer>`;
  const examined = await examine(reply, { kind: 'code_o', program: null }, { banned, otherFunctions: 'all' });
  return examined.kind === 'valid' && examined.record.kind !== 'code_f'
    ? { valid: true, output: examined.record.output }
    : { valid: false, output: null };
}

/** By upstream's rule for banned names. */
async function examine(reply: string, asked: ProposalRequest, rules: Pick<Examiner, 'banned' | 'otherFunctions'>): Promise<ProposalResult> {
  const { executor, signal } = await sandbox();
  const examiner = {
    executor,
    limits: LIMITS,
    prompt: 'full',
    bannedRule: 'modules',
    inputCount: 10,
    isHeldOut: async () => false,
    ...rules,
  } as const;
  return examineProposal(reply, asked, examiner, signal);
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
  // Where the text does not parse, upstream's removal of prints raises; its other functions return the text unchanged.
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

async function proposed({ kind, reply, reference: program = '', accuracy: share, banned }: Propose): Promise<unknown> {
  const examined = await examine(reply, { kind: `code_${kind}`, program }, { banned, otherFunctions: 'none' });
  const isValid = examined.kind === 'valid';
  return { reward: proposeReward({ isValid, accuracy: share }), format: isValid ? 1 : 0 };
}
