/** The toy tools of the vectors `ultrarag_pipelines`. */
import type { PipelineServer, PipelineTool, Values } from '../../src/pipelines/pipeline-server.ts';

type Texts = readonly string[];

const toy = (io: string, run: (args: Values) => Values): PipelineTool => ({ io, run: async (args) => run(args) });

const router = (state: (text: string) => string) =>
  toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).map((data) => ({ data, state: state(data) })) }));

/** Lists a step's calls; the note of the vectors describes the tools. */
export const TOYS: Readonly<Record<string, PipelineServer>> = {
  t: {
    parameters: { items: {}, sep: {} },
    tools: {
      init: toy('items->a_ls', ({ items }) => ({ a_ls: items })),
      step: toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).map((a) => `${a}s`) })),
      copy: toy('a_ls->b_ls', ({ a_ls }) => ({ b_ls: (a_ls as Texts).map((a) => `${a}b`) })),
      join: toy('a_ls,b_ls,sep->a_ls', ({ a_ls, b_ls, sep }) => ({
        a_ls: (a_ls as Texts).map((a, i) => `${a}${String(sep)}${(b_ls as Texts)[i]!.slice(-1)}`),
      })),
      short: toy('a_ls->a_ls', ({ a_ls }) => ({ a_ls: (a_ls as Texts).slice(0, -1) })),
      mute: toy('a_ls->z_ls', () => ({})),
      look: toy('memory_a_ls->n', ({ memory_a_ls }) => ({ n: [String((memory_a_ls as readonly unknown[]).length)] })),
    },
  },
  r: {
    parameters: {},
    tools: {
      parity: router((text) => (text.length % 2 === 0 ? 'even' : 'odd')),
      mod3: router((text) => `s${text.length % 3}`),
      done: router((text) => (text.length >= 5 ? 'done' : 'more')),
    },
  },
};
