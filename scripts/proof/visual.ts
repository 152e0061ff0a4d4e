/** Searchers of document pages learn in visual-rag, part by part. */
import { type PartsPage, type ProofPart, writePart } from './parts-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import { proveLaptopPart } from './visual-laptop.ts';
import { proveLoop } from './visual-loop.ts';
import { proveSees } from './visual-sees.ts';

const PARTS: Readonly<Record<string, (options: ProofOptions) => Promise<ProofPart>>> = { laptop: proveLaptopPart, sees: proveSees, loop: proveLoop };

export const VISUAL_PAGE: PartsPage = {
  name: 'visual',
  title: 'Searchers of document pages learn',
  intro: [
    'Held-out rows, sampled at temperature 1, before the first step and after the last. Seconds are those of the whole command without the startup of npx, on a machine that may be busy with other',
    'work; CPU seconds are those of all its threads. |Δ log-prob| is the largest difference of a token between trainer and sampler.',
  ],
  heading: 'visual-rag: searchers of document pages',
  parts: Object.keys(PARTS),
  unlabelled: 'visual-rag, ',
};

export const VISUAL: Proof = {
  about: 'searchers of document pages learn: with Node alone, through a real vLLM that sees, and in rounds',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time'],
  parts: VISUAL_PAGE.parts,
  keepsParts: true,
  prove: proveVisual,
};

async function proveVisual(options: ProofOptions): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const [name, prove] of Object.entries(PARTS)) {
    if (options.only?.includes(name) === false) continue;
    verdicts.push(...writePart(options, VISUAL_PAGE, name, await prove(options)));
  }
  return verdicts;
}
