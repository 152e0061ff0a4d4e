/**
 * Reads proposals: a program with its input, or inputs with a message, as upstream's rewards/code_reward.py. Everything here is text: imports, banned
 * names and rewriting go through Python's own parser in the sandbox (`CodeExecutor.analyse`). Nothing throws, and everything is linear in the text.
 */
import { strip } from 'vf-search/metrics/python-text';
import { definedFunctions, renamedFunction } from './python-definitions.ts';
import { taggedParts } from './reply.ts';
import { hasTestInput } from './test-input.ts';
import { codeBlocks, fencedBlocks, headedBlocks, taggedBlocks } from './text-blocks.ts';

/** The name of every program's function. */
const ENTRY = 'f';

/** The reason why a proposal cannot be used. */
export type ProposalFault =
  | 'no_code'
  | 'no_input'
  | 'no_output'
  | 'no_function'
  | 'several_functions'
  | 'test_input'
  | 'bad_format'
  | 'too_few_inputs'
  | 'no_message'
  | 'too_long'
  | 'bad_characters';

export type ParsedProposal =
  | {
      readonly kind: 'program';
      /** Its function is called `f`. */
      readonly code: string;
      /** The text between the brackets of the call. */
      readonly input: string;
      /** Empty unless the proposal was asked for one. */
      readonly output: string;
    }
  | { readonly kind: 'fault'; readonly fault: ProposalFault };

export type ParsedInputs =
  | { readonly kind: 'inputs'; readonly inputs: readonly string[]; readonly message: string }
  | { readonly kind: 'fault'; readonly fault: ProposalFault };

/** The function to rename to `f` if there are several: the first or the last, or, with `any`, none if one of them is called `f` already. */
export type RenamedFunction = 'not_first' | 'not_last' | 'any_first' | 'any_last';

export interface ProposalOptions {
  /** An output block is needed too. @default false */
  readonly parseOutput?: boolean;
  /** More than one `def` at the beginning of a line, inner functions included, is a fault. @default true */
  readonly rejectMultipleFunctions?: boolean;
  /** A program that seems to contain its own test is a fault. @default false */
  readonly rejectTestInput?: boolean;
  /** @default 'not_first' */
  readonly rename?: RenamedFunction;
  /** The code block that counts if there are several. @default 'first' */
  readonly codeLocation?: 'first' | 'last';
  /** Longest program and longest input, in UTF-16 code units; chosen by us, upstream has no limit. @default 65536 */
  readonly maxCharacters?: number;
}

/** The default of `maxCharacters`. */
const MAX_CHARACTERS = 65_536;

/**
 * Reads the answer of a proposal: its first code block, and its first input block or `# Input:` heading. The function is renamed to `f`, with its calls.
 * @param answer The text of the answer tag.
 */
export function parseProposal(answer: string, options: ProposalOptions = {}): ParsedProposal {
  const { parseOutput = false, codeLocation = 'first', maxCharacters = MAX_CHARACTERS } = options;
  const code = codeBlocks(answer).at(codeLocation === 'first' ? 0 : -1);
  const input = valueBlock(answer, 'input');
  const output = parseOutput ? valueBlock(answer, 'output') : '';
  if (code === undefined) return faulty('no_code');
  if (input === undefined) return faulty('no_input');
  if (output === undefined) return faulty('no_output');
  const program = namedProgram(strip(code), options);
  if ('fault' in program) return program;
  const parts = [program.code, strip(input), strip(output)] as const;
  const fault = textFault(parts, maxCharacters);
  return fault === null ? { kind: 'program', code: parts[0], input: parts[1], output: parts[2] } : faulty(fault);
}

/** Reads the nano model's proposal, `<code>…</code><input>…</input>` and nothing else. The program's function must be called `f`. */
export function parseMiniProposal(reply: string, { maxCharacters = MAX_CHARACTERS }: Pick<ProposalOptions, 'maxCharacters'> = {}): ParsedProposal {
  const parts = taggedParts(reply, ['code', 'input']);
  if (parts === null) return faulty('bad_format');
  const [code, input] = parts as [string, string];
  const fault = textFault(parts, maxCharacters) ?? functionFault(definedFunctions(code));
  return fault === null ? { kind: 'program', code, input, output: '' } : faulty(fault);
}

export interface InputsOptions {
  /** The number of inputs that are needed; the last ones count. @default 10 */
  readonly numInputs?: number;
  /** Longest input and longest message, in UTF-16 code units. @default 65536 */
  readonly maxCharacters?: number;
}

/** Reads the inputs and the message of a `code_f` proposal: the last `numInputs` input blocks, and the message block, tag or `# Message:` heading. */
export function parseInputsMessage(answer: string, { numInputs = 10, maxCharacters = MAX_CHARACTERS }: InputsOptions = {}): ParsedInputs {
  const inputs = fencedBlocks(answer, 'input').map(strip);
  if (inputs.length < numInputs) return faulty('too_few_inputs');
  const [message] = [fencedBlocks, taggedBlocks, headedBlocks].flatMap((find) => find(answer, 'message').slice(0, 1));
  if (message === undefined) return faulty('no_message');
  return checkedInputs(inputs.slice(inputs.length - numInputs), strip(message), maxCharacters);
}

/** Reads the nano model's `code_f` proposal: exactly `numInputs` `<input>` tags, then `<message>`, and nothing else. */
export function parseMiniInputsMessage(reply: string, { numInputs = 4, maxCharacters = MAX_CHARACTERS }: InputsOptions = {}): ParsedInputs {
  const names = [...Array.from({ length: numInputs }, () => 'input'), 'message'];
  const parts = taggedParts(reply, names);
  return parts === null ? faulty('bad_format') : checkedInputs(parts.slice(0, numInputs), parts.at(-1)!, maxCharacters);
}

export type ParsedCode = { readonly kind: 'code'; readonly code: string } | { readonly kind: 'fault'; readonly fault: ProposalFault };

/** Reads the program of a `code_f` solution: the last code block. Its function keeps its name. */
export function parseCode(answer: string, { maxCharacters = MAX_CHARACTERS }: Pick<ProposalOptions, 'maxCharacters'> = {}): ParsedCode {
  const code = codeBlocks(answer).at(-1);
  if (code === undefined) return faulty('no_code');
  const fault = textFault([strip(code)], maxCharacters);
  return fault === null ? { kind: 'code', code: strip(code) } : faulty(fault);
}

/** Reads the nano model's program, which is the whole answer. */
export function parseMiniCode(answer: string, { maxCharacters = MAX_CHARACTERS }: Pick<ProposalOptions, 'maxCharacters'> = {}): ParsedCode {
  const fault = answer === '' ? 'no_code' : textFault([answer], maxCharacters);
  return fault === null ? { kind: 'code', code: answer } : faulty(fault);
}

function valueBlock(answer: string, name: 'input' | 'output'): string | undefined {
  return fencedBlocks(answer, name)[0] ?? headedBlocks(answer, name)[0];
}

function namedProgram(code: string, options: ProposalOptions): { code: string } | { kind: 'fault'; fault: ProposalFault } {
  const { rejectMultipleFunctions = true, rejectTestInput = false, rename = 'not_first' } = options;
  const names = definedFunctions(code);
  if (names.length === 0) return faulty('no_function');
  if (rejectMultipleFunctions && names.length > 1) return faulty('several_functions');
  if (rejectTestInput && hasTestInput(code)) return faulty('test_input');
  const isNamed = rename.startsWith('any') && names.includes(ENTRY);
  const entry = isNamed ? ENTRY : names.at(rename === 'not_first' || rename === 'any_first' ? 0 : -1)!;
  return { code: entry === ENTRY ? code : renamedFunction(code, entry, ENTRY) };
}

function functionFault(names: readonly string[]): ProposalFault | null {
  if (names.length > 1) return 'several_functions';
  return names[0] === ENTRY ? null : 'no_function';
}

function checkedInputs(inputs: readonly string[], message: string, maxCharacters: number): ParsedInputs {
  const fault = textFault([...inputs, message], maxCharacters);
  return fault === null ? { kind: 'inputs', inputs, message } : faulty(fault);
}

/** Python reads no program with a NUL, and a lone surrogate has no UTF-8. */
function textFault(texts: readonly string[], maxCharacters: number): ProposalFault | null {
  if (texts.some((text) => text.length > maxCharacters)) return 'too_long';
  return texts.every((text) => text.isWellFormed() && !text.includes('\0')) ? null : 'bad_characters';
}

function faulty(fault: ProposalFault): { readonly kind: 'fault'; readonly fault: ProposalFault } {
  return { kind: 'fault', fault };
}
