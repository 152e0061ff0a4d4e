/** The nano coder is taught the texts of the environment self-play-code: its prompts in the style mini, and replies that its parsers read. */
import {
  critiquePrompt,
  parseCritique,
  parseMiniCode,
  parseMiniInputsMessage,
  parseMiniProposal,
  parseReply,
  type PromptStyle,
  proposePrompt,
  solvePrompt,
} from 'vf-search/environments/self-play-code';
import { describe, expect, it } from 'vitest';
import { python } from '../python.ts';

interface Taught {
  prompts: Record<string, string>;
  replies: Record<'program' | 'inputs' | 'output' | 'input' | 'function' | 'grade', string[]>;
}

const CODE = "def f(a):a=a[::-1];a=a+'3';return a";
const INPUTS = ["'314'", "'12'", "'407'", "'5'"];
const OUTPUTS = ["'4133'", "'213'", "'7043'", "'53'"];

const taught = python(`
import json, random
from recipes.coder import episodes
from recipes.coder import texts
code, inputs, outputs = json.loads(${JSON.stringify(JSON.stringify([CODE, INPUTS, OUTPUTS]))})
rng, none = random.Random(1), frozenset()
draw = lambda episode, only_good=True: [episode(rng, only_good, none)[1] for _ in range(50)]
print(json.dumps({
    "prompts": {
        "propose o": texts.propose("o"),
        "propose i": texts.propose("i"),
        "propose f": texts.propose("f", code),
        "solve o": texts.solve_output(code, inputs[0]),
        "solve i": texts.solve_input(code, outputs[0]),
        "solve f": texts.solve_function(list(zip(inputs, outputs))[:texts.INPUTS // 2], "reverse append"),
        "critique": texts.critique("a=a[::-1];413;"),
    },
    "replies": {
        "program": draw(episodes.propose_episode),
        "inputs": draw(episodes.inputs_episode),
        "output": draw(episodes.output_episode),
        "input": draw(episodes.input_episode),
        "function": draw(episodes.function_episode),
        "grade": draw(episodes.critique_episode),
    },
}))`) as Taught;

const MINI: PromptStyle = 'mini';
const slots = { references: [], banned: [], inputCount: 4 };

describe('recipes/coder/texts.py', () => {
  it('writes the prompts of the environment', () => {
    const io = { snippet: CODE, input: INPUTS[0]!, output: OUTPUTS[0]!, imports: [] };
    const text = (messages: readonly { content: unknown }[]) => messages.map(({ content }) => content).join('\n---\n');
    expect(taught.prompts).toEqual({
      'propose o': text(proposePrompt(MINI, { ...slots, kind: 'code_o', program: null })),
      'propose i': text(proposePrompt(MINI, { ...slots, kind: 'code_i', program: null })),
      'propose f': text(proposePrompt(MINI, { ...slots, kind: 'code_f', program: CODE })),
      'solve o': text(solvePrompt(MINI, { kind: 'code_o', ...io })),
      'solve i': text(solvePrompt(MINI, { kind: 'code_i', ...io })),
      'solve f': text(solvePrompt(MINI, { kind: 'code_f', snippet: CODE, inputs: INPUTS, outputs: OUTPUTS, message: 'reverse append', imports: [] })),
      critique: text(critiquePrompt(MINI, 'a=a[::-1];413;', [])),
    });
  });

  it('writes good replies that the parsers of the environment read', () => {
    const { program, inputs, output, input, function: functions, grade } = taught.replies;
    for (const reply of program) expect(parseMiniProposal(reply)).toMatchObject({ kind: 'program' });
    for (const reply of inputs) expect(parseMiniInputsMessage(reply)).toMatchObject({ kind: 'inputs' });
    for (const reply of [...output, ...input, ...functions]) expect(parseReply(reply, MINI).isWellFormed).toBe(true);
    for (const reply of functions) expect(parseMiniCode(parseReply(reply, MINI).answer)).toMatchObject({ kind: 'code' });
    for (const reply of grade) expect(parseCritique(reply)).toMatchObject({ status: 'ok' });
    expect(new Set(grade.map((reply) => (JSON.parse(reply) as { grade: number }).grade)).size).toBeGreaterThan(3);
  });
});
