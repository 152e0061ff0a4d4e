/**
 * Verdicts on solutions. The sandbox returns texts, and this process compares them: the right values never enter a sandbox with a program or an answer, so that
 * no answer can forge a verdict. (Absolute Zero evaluates `gold == f(answer)` inside; a class whose `__eq__` returns True is rewarded there.)
 */
import { type CodeExecutor, type ExecutionLimits, type Literal, literalsEqual, parseLiteral } from 'vf-search/execution';
import { strip } from 'vf-search/metrics/python-text';
import { parseCode, parseMiniCode } from './parse-proposal.ts';
import type { PromptStyle } from './prompt.ts';
import { type FunctionRecord, type IoRecord, shownCount, type TaskKind, type TaskRecord } from './records.ts';
import { extractValue } from './reply.ts';

/** The rule that turns the results for hidden inputs into the correctness of a `code_f` solution: all must be right, the share of right ones, or one is enough. */
export type FunctionScore = 'binary' | 'accuracy' | 'if_one_correct';

export interface JudgeOptions {
  readonly executor: CodeExecutor;
  readonly limits: ExecutionLimits;
  readonly functionScore: FunctionScore;
  readonly signal: AbortSignal;
}

export interface CheckOptions extends JudgeOptions {
  readonly style: PromptStyle;
}

export interface Verdict {
  /** Correctness, in [0, 1]. */
  readonly accuracy: number;
  /** The reason, in a few words, why it is 0; null if it is more. */
  readonly problem: string | null;
}

/**
 * The correctness of one solution, in [0, 1]. Rejects with the executor's error: an answer is never wrong because no worker starts.
 * @param answer The text of the answer tag.
 */
export async function checkSolution(task: TaskRecord, answer: string, { style, ...options }: CheckOptions): Promise<number> {
  const solution = solutionText(task.kind, answer, style);
  if (solution === null) return 0;
  const [verdict] = await judgeSolutions(task, [solution], options);
  return verdict!.accuracy;
}

/** The solution in an answer; null if it must be a program and contains none, which upstream counts as a wrong format. */
export function solutionText(kind: TaskKind, answer: string, style: PromptStyle): string | null {
  if (kind !== 'code_f') return style === 'mini' ? answer : extractValue(answer, kind);
  const parsed = style === 'mini' ? parseMiniCode(answer) : parseCode(answer);
  return parsed.kind === 'code' ? parsed.code : null;
}

/**
 * Judges solutions of one task; the inputs of one program run as one job. Parallel to the solutions.
 * @param solutions `code_i`: texts of arguments. `code_o`: texts of values. `code_e`: names of errors. `code_f`: programs.
 */
export async function judgeSolutions(task: TaskRecord, solutions: readonly string[], options: JudgeOptions): Promise<Verdict[]> {
  const texts = [...new Set(solutions)];
  const verdicts = new Map((await verdictsOf(task, texts, options)).map((verdict, i) => [texts[i]!, verdict]));
  return solutions.map((solution) => verdicts.get(solution)!);
}

function verdictsOf(task: TaskRecord, solutions: readonly string[], options: JudgeOptions): Promise<Verdict[]> {
  if (task.kind === 'code_f') return Promise.all(solutions.map((code) => functionVerdict(task, code, options)));
  if (task.kind === 'code_i') return inputVerdicts(task, solutions, options);
  if (task.kind === 'code_o') return outputVerdicts(task, solutions, options);
  return Promise.resolve(solutions.map((name) => (errorName(name) === task.output.toLowerCase() ? RIGHT : wrong('another error'))));
}

const RIGHT: Verdict = { accuracy: 1, problem: null };

function wrong(problem: string): Verdict {
  return { accuracy: 0, problem };
}

/** Upstream's rule: the first word, up to a colon. */
function errorName(answer: string): string {
  return answer.split(' ', 1)[0]!.split(':', 1)[0]!.toLowerCase();
}

async function outputVerdicts({ output }: IoRecord, answers: readonly string[], options: JudgeOptions): Promise<Verdict[]> {
  const [gold] = await valuesOf([output], options);
  const values = await valuesOf(answers, options);
  return values.map((value) => compared(gold!, value));
}

async function inputVerdicts(task: IoRecord, answers: readonly string[], options: JudgeOptions): Promise<Verdict[]> {
  const [gold] = await valuesOf([task.output], options);
  const calls = await argumentTexts(answers, options);
  const valid = calls.filter((call) => call !== null);
  const results = valid.length === 0 ? [] : await resultsOf(withImports(task, task.snippet), valid, options);
  let next = 0;
  return calls.map((call) => (call === null ? wrong('no input') : compared(gold!, results[next++]!)));
}

async function functionVerdict(task: FunctionRecord, code: string, options: JudgeOptions): Promise<Verdict> {
  const shown = shownCount(task.inputs);
  const golds = await valuesOf(task.outputs.slice(shown), options);
  const results = await resultsOf(withImports(task, code), task.inputs.slice(shown), options);
  const verdicts = golds.map((gold, i) => compared(gold, results[i]!));
  const right = verdicts.filter(({ accuracy }) => accuracy === 1).length;
  const share = golds.length === 0 ? 0 : right / golds.length;
  const accuracy = { binary: share === 1 ? 1 : 0, accuracy: share, if_one_correct: share > 0 ? 1 : 0 }[options.functionScore];
  return { accuracy, problem: accuracy > 0 ? null : (verdicts.find(({ problem }) => problem !== null)?.problem ?? 'no hidden input') };
}

/** The value of a call or an expression, or the reason why there is none. */
type Value = { readonly literal: Literal } | { readonly problem: string };

function compared(gold: Value, value: Value): Verdict {
  if ('problem' in gold) return wrong(`the right value cannot be compared: ${gold.problem}`);
  if ('problem' in value) return wrong(value.problem);
  return literalsEqual(gold.literal, value.literal) ? RIGHT : wrong('another value');
}

/** The values of calls of a program. */
async function resultsOf(code: string, calls: readonly string[], { executor, limits, signal }: JudgeOptions): Promise<Value[]> {
  const result = await executor.run({ code, calls, hashSeed: 0, limits }, { signal });
  if (result.kind !== 'ran') return calls.map(() => ({ problem: result.kind }));
  return result.calls.map((call) => ('error' in call ? { problem: call.error } : literalOf(call.repr)));
}

function literalOf(text: string): Value {
  const parsed = parseLiteral(text);
  return parsed.ok ? { literal: parsed.value } : { problem: 'not a literal' };
}

/** The values of texts: literals are read here, expressions are evaluated alone in a sandbox. */
async function valuesOf(texts: readonly string[], options: JudgeOptions): Promise<Value[]> {
  const values = texts.map(literalOf);
  const expressions = texts.filter((text, i) => 'problem' in values[i]! && isSendable(text));
  if (expressions.length === 0) return values;
  const evaluated = await resultsOf(
    'def f(a): return a',
    expressions.map((text) => `(${text}\n)`),
    options,
  );
  const found = new Map(expressions.map((text, i) => [text, evaluated[i]!]));
  return texts.map((text, i) => found.get(text) ?? values[i]!);
}

/** A job for each call, so that no expression can change the value of a later one. */
async function evaluatedApart(code: string, calls: readonly string[], options: JudgeOptions): Promise<Value[]> {
  const values = await Promise.all(calls.map((call) => resultsOf(code, [call], options)));
  return values.flat();
}

/** Writes out each argument as a literal: the program never sees the expression. */
const ARGUMENTS = 'def f(*a, **k): return [repr(v) for v in a], {n: repr(v) for n, v in k.items()}';

/**
 * The texts of arguments as literals: an expression is evaluated alone in a sandbox, because within the program it could change the program's behaviour. Null
 * for a text that is not a list of arguments, or has no literals.
 */
async function argumentTexts(answers: readonly string[], options: JudgeOptions): Promise<(string | null)[]> {
  const expressions = answers.filter((answer) => !areLiterals(answer) && isSendable(answer));
  const evaluated = await evaluatedApart(ARGUMENTS, expressions, options);
  const found = new Map(expressions.map((answer, i) => [answer, literalArguments(evaluated[i]!)]));
  return answers.map((answer) => (areLiterals(answer) ? answer : (found.get(answer) ?? null)));
}

/** True for a list of literals, such as `1, 'a'`; false for any text that closes a bracket and opens another. */
export function areLiterals(answer: string): boolean {
  const parsed = parseLiteral(`[${answer}\n]`);
  return parsed.ok && parsed.value.kind === 'list';
}

function literalArguments(value: Value): string | null {
  if ('problem' in value || value.literal.kind !== 'tuple') return null;
  const [positional, named] = value.literal.items;
  if (positional?.kind !== 'list' || named?.kind !== 'dict') return null;
  const texts = [...positional.items.map((item) => literalText(item)), ...named.entries.map(([name, item]) => namedText(name, literalText(item)))];
  return texts.includes(null) ? null : texts.join(', ');
}

function literalText(item: Literal): string | null {
  return item.kind === 'str' && parseLiteral(item.value).ok ? item.value : null;
}

function namedText(name: Literal, text: string | null): string | null {
  return text !== null && name.kind === 'str' && /^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(name.value) ? `${name.value}=${text}` : null;
}

/** Python reads no text with a NUL, and a lone surrogate has no UTF-8. */
function isSendable(text: string): boolean {
  return strip(text) !== '' && text.isWellFormed() && !text.includes('\0');
}

function withImports({ imports }: TaskRecord, code: string): string {
  const missing = [...new Set(imports)].filter((line) => !code.includes(line));
  return [...missing, code].join('\n');
}
