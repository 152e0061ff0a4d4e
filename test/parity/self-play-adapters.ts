/** Adapters for self-play over programs: Absolute Zero's functions and reward manager, with CPython in the sandbox, and the seed's formulas. */
import {
  alphaSchedule,
  criticScores,
  extractAnswer,
  extractThought,
  extractValue,
  formatReward,
  integratedCritiqueReward,
  integratedSolveReward,
  learnability,
  lengthReward,
  limoRows,
  parseCode,
  parseCritique,
  parseInputsMessage,
} from 'vf-search/environments/self-play-code';
import type { CodeFacts, CodeRewrite } from 'vf-search/execution';
import { executorAdapters } from './self-play-executor-adapters.ts';
import { sandbox } from './sandbox.ts';
import type { Adapter } from './vectors.ts';

interface Code {
  readonly code: string;
}

interface Banned extends Code {
  readonly banned: readonly string[];
}

type Kind = 'i' | 'o';

export const selfPlayAdapters: Readonly<Record<string, Adapter>> = {
  ...executorAdapters,
  azr_parse_imports: { actual: async ({ code }: Code) => (await facts(code, [])).imports },
  azr_contains_banned_imports: { actual: async ({ code, banned }: Banned) => (await facts(code, [], banned)).banned.length > 0 },
  azr_remove_comments_and_docstrings: { actual: ({ code }: Code) => rewritten(code, 'comments') },
  azr_remove_any_not_definition_imports: { actual: ({ code }: Code) => rewritten(code, 'definitions') },
  azr_remove_print_statements: { actual: ({ code }: Code) => rewritten(code, 'prints') },
  azr_replace_main_function_name: { actual: (input: Code & { old: string; new: string }) => rewritten(input.code, [input.old, input.new]) },
  azr_extract_answer: {
    actual: ({ text, extraction_type: type }: { text: string; extraction_type: string }) => {
      const place = type.startsWith('boxed') ? 'boxed' : 'answer';
      return { answer: extractAnswer(text, place), thought: extractThought(text), format: formatReward(text, place) };
    },
  },
  azr_extract_input_output: { actual: ({ text, kind }: { text: string; kind: Kind }) => extractValue(text, `code_${kind}`) },
  azr_parse_inputs_message: {
    actual: ({ text, num_inputs: numInputs }: { text: string; num_inputs: number }) => {
      const parsed = parseInputsMessage(text, { numInputs });
      return parsed.kind === 'fault' ? { ok: false, result: {} } : { ok: true, result: { inputs: parsed.inputs, message: parsed.message } };
    },
  },
  azr_parse_code_function: {
    actual: ({ text }: { text: string }) => {
      const parsed = parseCode(text);
      return parsed.kind === 'fault' ? { ok: false, code: '' } : { ok: true, code: parsed.code };
    },
  },
  crsp_alpha_schedule: {
    actual: (input: { step: number; total_steps: number }) => {
      const { solve, critique } = alphaSchedule(input.step, input.total_steps);
      return { alpha_s: solve, alpha_c: critique };
    },
  },
  crsp_critics: { actual: ({ grades, correct }: { grades: readonly (number | null)[]; correct: boolean }) => criticScores(grades, correct) },
  crsp_critique_reply: { actual: ({ text }: { text: string }) => parseCritique(text) },
  crsp_learnability: { actual: (input: { solver_rewards: readonly number[] }) => learnability(input.solver_rewards) },
  crsp_length_reward: {
    actual: ({
      tokens,
      max_length: maxLength,
      penalty_threshold: penaltyThreshold,
    }: {
      tokens: number;
      max_length: number;
      penalty_threshold: number;
    }) => lengthReward(tokens, { maxLength, penaltyThreshold }),
  },
  crsp_limo_rows: { actual: ({ rows }: { rows: readonly unknown[] }) => limoRows(rows) },
  crsp_rewards: { actual: rewards },
};

interface RewardInput {
  readonly correctness: number;
  readonly length_score: number;
  readonly agreement_score: number;
  readonly creativity_score: number;
  readonly alpha_s: number;
  readonly alpha_c: number;
}

function rewards(input: RewardInput): unknown {
  return {
    solve: integratedSolveReward({ correctness: input.correctness, length: input.length_score }, input.alpha_s),
    critique: integratedCritiqueReward({ agreement: input.agreement_score, creativity: input.creativity_score }, input.alpha_c),
  };
}

async function facts(code: string, rewrites: readonly CodeRewrite[], banned: readonly string[] = []): Promise<CodeFacts> {
  const { executor, signal } = await sandbox();
  return executor.analyse(code, { banned, bannedRule: 'modules', rewrites, signal });
}

/** Upstream returns text that does not parse unchanged; two of its functions raise instead. */
async function rewritten(code: string, rewrite: CodeRewrite): Promise<string> {
  const read = await facts(code, [rewrite]);
  if (read.syntaxError === null) return read.code;
  return rewrite === 'comments' || rewrite === 'definitions' ? code : 'SyntaxError';
}
