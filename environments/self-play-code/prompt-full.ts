/**
 * The prompts for language models, in words of our own. They have every slot of Absolute Zero's prompts: reference programs, banned words, the number of inputs, the
 * program to describe, shown inputs and outputs, the message.
 */
import { type FunctionRecord, type IoRecord, shownCount, type TaskKind, type TaskRecord } from './records.ts';

const THINK_FIRST =
  'First reason step by step inside <think> and </think>. Then give the final result inside <answer> and </answer>, in exactly the format that is asked for below.';

const SOUGHT: Readonly<Record<Exclude<TaskKind, 'code_f'>, string>> = {
  code_o: 'will be shown your program and your input, and has to work out what `f` returns',
  code_i: 'will be shown your program and what `f` returns, and has to find an input that gives this result',
  code_e: 'will be shown your program and your input, and has to name the error that the call raises, or say NoError',
};

export interface ProposeSlots {
  /** Earlier programs, as examples of existing tasks. */
  readonly references: readonly IoRecord[];
  /** Modules and names that a program must not use. */
  readonly banned: readonly string[];
}

export function fullPropose(kind: Exclude<TaskKind, 'code_f'>, { references, banned }: ProposeSlots): string {
  return [
    `${THINK_FIRST}\n`,
    '## Task: invent a Python program',
    `Write a Python function \`f\` and one input for it. Another programmer ${SOUGHT[kind]}, without running anything. Make the task demanding: it should take several steps of careful reasoning, and still be solvable.`,
    '',
    'Rules:',
    '- The function to be called is named `f`; helper functions and classes are defined inside it. It takes at least one argument and returns a value.',
    '- The program is deterministic, finishes within a few seconds, prints nothing, and needs no files, network or third-party packages.',
    '- Everything that it returns is a plain Python value: numbers, strings, booleans, None, or lists, tuples, sets and dictionaries of them.',
    `- These words must not occur in an import or as a name: ${banned.join(', ')}.`,
    '- The input is what stands between the parentheses of the call; several arguments are separated by commas, and strings have quotes.',
    '- The program differs from the examples below in what it does, not only in its names.',
    '',
    'Format of the answer:',
    '```python',
    'def f(text, times):',
    '    # your program',
    '    return result',
    '```',
    '```input',
    "'abc', 3",
    '```',
    ...references.flatMap((record, i) => [
      '',
      `### Example ${i + 1}`,
      ...block('python', record.snippet),
      ...block('input', record.input),
      ...shownOutput(record),
    ]),
  ].join('\n');
}

export function fullDescribe(program: string, inputCount: number): string {
  return [
    `${THINK_FIRST}\n`,
    '## Task: choose inputs and write a message',
    `Below is a Python function \`f\`. Choose ${inputCount} inputs for it and write a message. Another programmer will see the message and the results of half of your inputs, but not the program, and has to write a function that agrees with \`f\` on all of them.`,
    '',
    'Rules:',
    `- Exactly ${inputCount} inputs, each in a block of its own, different from each other and from a single pattern: together they should show what the function does.`,
    '- An input is what stands between the parentheses of the call; strings have quotes.',
    '- The message hints at what the function is for. It contains no code and does not give the function away.',
    '',
    'Format of the answer:',
    '```input',
    "'abc', 3",
    '```',
    '```input',
    "'x', 0",
    '```',
    '```message',
    'your message',
    '```',
    '',
    '### The function',
    ...block('python', program),
  ].join('\n');
}

export function fullSolve(record: TaskRecord): string {
  return [`${THINK_FIRST}\n`, ...(record.kind === 'code_f' ? solveFunction(record) : solveIo(record))].join('\n');
}

function solveIo({ kind, snippet, input, output }: IoRecord): string[] {
  if (kind === 'code_i') {
    return [
      '## Task: find an input',
      'Find an input for which `f` below returns the given result. Any such input is right. Answer with what stands between the parentheses of the call, in a block:',
      '```input',
      "'abc', 3",
      '```',
      '',
      ...block('python', snippet),
      ...block('output', output),
    ];
  }
  const asked =
    kind === 'code_o'
      ? [
          '## Task: predict the result',
          'Work out what `f` below returns for the given input. Answer with the value as Python writes it (repr), in a block:',
          '```output',
          "'cba'",
          '```',
        ]
      : [
          '## Task: predict the error',
          'Name the class of the error that the call below raises, such as ValueError, or NoError if it raises none. Answer in a block:',
          '```output',
          'ValueError',
          '```',
        ];
  return [...asked, '', ...block('python', snippet), ...block('input', input)];
}

function solveFunction({ inputs, outputs, message }: FunctionRecord): string[] {
  const shown = inputs.slice(0, shownCount(inputs));
  return [
    '## Task: write the function',
    'Write a Python function `f` that returns the given result for each input below. It is also called with inputs that are not shown, so find the rule instead of listing cases. Answer with the whole program in a block:',
    '```python',
    'def f(a):',
    '    return a',
    '```',
    '',
    ...shown.flatMap((input, i) => [...block('input', input), ...block('output', outputs[i]!)]),
    ...block('message', message),
  ];
}

function shownOutput({ kind, output }: IoRecord): string[] {
  return kind === 'code_e' ? [] : block('output', output);
}

function block(name: string, text: string): string[] {
  return [`\`\`\`${name}`, text, '```'];
}
