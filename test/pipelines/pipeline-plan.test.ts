import { describe, expect, it } from 'vitest';
import type { PipelineServer } from '../../src/pipelines/pipeline-server.ts';
import { planText, tool } from './toy-servers.ts';

const nothing = () => ({});
const SERVERS: Readonly<Record<string, PipelineServer>> = {
  s: {
    parameters: { size: {}, template: {} },
    tools: { make: tool('size->a', nothing), use: tool('a,t=template->b', nothing), ask: tool('query_list=a,memory_b->c', nothing) },
  },
  r: { parameters: {}, tools: { check: tool('a->a', nothing) } },
};
const file = (steps: string, more = '') => `servers: {s: x, r: y}\n${more}pipeline:\n${steps}`;

describe('planPipeline', () => {
  it('finds for every argument its parameter, variable or history', () => {
    const { steps, histories, used } = planText(file('- s.make\n- s.use\n- s.ask: {input: {query_list: b}, output: {c: d}}\n'), SERVERS);
    expect(steps).toMatchObject([
      { name: 's.make', inputs: [{ argument: 'size', from: 'parameter', name: 'size' }], outputs: [{ key: 'a', to: 'variable', name: 'a' }] },
      {
        inputs: [
          { argument: 'a', from: 'variable' },
          { argument: 't', from: 'parameter', name: 'template' },
        ],
      },
      {
        inputs: [
          { argument: 'query_list', from: 'variable', name: 'b' },
          { from: 'history', name: 'b' },
        ],
        outputs: [{ key: 'c', name: 'd' }],
      },
    ]);
    expect([...histories]).toEqual(['b']);
    expect([...used.get('s')!]).toEqual(['size', 'template']);
  });

  it.each([
    ['a server that is not listed', '- q.make\n', /^the file: q\.make \(step 1\) needs the server q, which the file does not list.*; it lists s, r$/],
    ['an unknown tool', '- s.makee\n', /^the file: s\.makee \(step 1\) is not a tool of the server s \(did you mean make\?\)$/],
    ['a variable that nothing writes', '- s.use\n', /s\.use \(step 1\) needs the variable a, which no earlier step writes; there are none$/],
    ['a variable that only a later step writes', '- s.use\n- s.make\n', /the variable a, which no earlier step writes; a later step writes it/],
    ['a history of nothing', '- s.make\n- s.ask\n', /needs the variable b, which no earlier step writes/],
    ['an unknown parameter', '- s.make: {input: {size: $sise}}\n', /needs the parameter sise, which s does not have \(did you mean size\?\)/],
    ['an unknown input', '- s.make: {input: {sise: $size}}\n', /has no input sise \(did you mean size\?\); it takes size$/],
    ['an unknown output', '- s.make: {output: {zzz: b}}\n', /has no output zzz; it gives a$/],
    ['an unknown key of a step', '- s.make: {inputs: {}}\n', /s\.make \(step 1\) has the unknown key "inputs"; known are input and output$/],
    ['an unknown key of the file', '- s.make\nsteps: []\n', /^the file has the unknown key "steps"/],
    ['no steps', '  []\n', /pipeline must be a list of at least one step, got an empty list$/],
    ['a step without a dot', '- make\n', /step 1 is "make"; write server\.tool, loop or branch$/],
    ['a step that is a number', '- 3\n', /step 1 must be server\.tool, loop or branch, got 3$/],
    ['two steps in one', '- {s.make: {}, s.use: {}}\n', /step 1 must be server\.tool, loop or branch, got the keys s\.make, s\.use$/],
    ['a loop without times', '- loop: {steps: [s.make]}\n', /loop \(step 1\) needs times, a whole number from 1 to 10000, got nothing$/],
    ['a loop of no rounds', '- loop: {times: 0, steps: [s.make]}\n', /needs times, a whole number from 1 to 10000, got 0$/],
    ['a loop without steps', '- loop: {times: 2}\n', /loop \(step 1\) needs steps/],
    ['a branch without a router', '- branch: {branches: {x: []}}\n', /branch \(step 1\) needs router, a list of at least one tool$/],
    ['a branch without branches', '- s.make\n- branch: {router: [r.check]}\n', /branch \(step 2\) needs branches/],
    ['a loop as router', '- branch: {router: [{loop: {times: 1, steps: [s.make]}}], branches: {x: []}}\n', /must be tools, got a loop$/],
    ['a number as the name of a variable', '- s.make: {output: {a: 3}}\n', /a must be the name of a variable, or \$ and that of a parameter, got 3$/],
    [
      'an error deep inside',
      '- s.make\n- loop: {times: 2, steps: [{branch: {router: [r.check], branches: {x: [s.nope]}}}]}\n',
      /s\.nope \(step 2\.loop\.1\.x\.1\)/,
    ],
  ])('refuses %s', (_, steps, message) => {
    expect(() => planText(file(steps), SERVERS)).toThrow(message);
  });
});
