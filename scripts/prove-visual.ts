/**
 * Proves that searchers of document pages learn in visual-rag, part by part. scripts/proof/visual-proofs.ts has the parts and their bars.
 *
 *   npm run prove:visual                     every part; writes docs/results/visual.*
 *   npm run prove:visual -- --quick          few steps and loose bars; does not write to docs/
 *
 * --only laptop       some parts, separated by commas; the others keep their results on the page
 * --seeds 0,1,2   --output DIR   --set key=value (for vf-train)
 * --strict-time       judges the time too; only for an idle machine with two cores
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { announceVerdicts, ROOT, type Verdict } from './proof/training-proof.ts';
import { keepPart, namedVerdicts, writeVisualPage } from './proof/visual-page.ts';
import { VISUAL_PROOFS } from './proof/visual-proofs.ts';

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    seeds: { type: 'string' },
    output: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    'strict-time': { type: 'boolean', default: false },
  },
});
const { quick } = given;
const known = VISUAL_PROOFS.map(({ name }) => name);
const only = given.only?.split(',') ?? known;
const unknown = only.find((name) => !known.includes(name));
if (unknown !== undefined) throw new Error(`--only ${unknown} is none of ${known.join(', ')}.`);
const seeds = (given.seeds ?? (quick ? '0' : '0,1,2')).split(',').map(Number);
const output = given.output ?? join(ROOT, quick ? 'outputs/prove-visual' : 'docs/results');
const options = { quick, seeds, isStrict: given['strict-time'], settings: given.set, runs: join(ROOT, 'outputs/prove-visual') };

const verdicts: Verdict[] = [];
for (const { name, prove } of VISUAL_PROOFS.filter(({ name: own }) => only.includes(own))) {
  const part = await prove(options);
  keepPart(output, name, part);
  verdicts.push(...namedVerdicts(name, part.verdicts));
}
writeVisualPage(output);
announceVerdicts(verdicts);
