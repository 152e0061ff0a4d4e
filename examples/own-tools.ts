/** A server of your own: tools that a pipeline calls in addition to the built-in ones. `vf-pipeline run examples/own-tools.yaml` runs it. */
import type { PipelineTool } from 'vf-search/pipelines';

/** Parameters as JSON Schemas; one without a default must be set in the parameter file. */
export const parameters = {
  missing: { type: 'string', default: 'nothing found', description: 'The answer to a question without passages.' },
};

/** Returns the last word: `The mayor of Kinzer is Purorka.` gives `Purorka`. */
function lastWord(passage: string): string {
  return /([^\s.]+)\.?\s*$/.exec(passage)?.[1] ?? '';
}

export const tools: Readonly<Record<string, PipelineTool>> = {
  last_word: {
    // `ret_psg` is a variable that an earlier step wrote, `missing` the parameter above; the evaluation reads `pred_ls`.
    io: 'ret_psg,missing->pred_ls',
    // Lists with one entry for each question. Inside a branch, they hold only the questions of the branch.
    isPerItem: true,
    run: async ({ ret_psg, missing }) => ({
      pred_ls: (ret_psg as string[][]).map(([first]) => (first === undefined ? (missing as string) : lastWord(first))),
    }),
  },
};
