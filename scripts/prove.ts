/**
 * Proves that policies learn: runs the commands as users do, judges the results, and writes a page of docs/results.
 *
 *   npm run prove                             lists the proofs
 *   npm run prove laptop                      one proof; exit code 0 if every claim holds, 1 if one does not, 2 for a wrong command line
 *   npm run prove laptop -- --quick           a cut of it, for CI; does not write to docs/
 *   npm run prove laptop -- --help            its flags
 */
import { flagLines, parseProofOptions, type ProofOptions, UsageError } from './proof/proof-options.ts';
import { PROOFS } from './proof/proofs.ts';
import type { Verdict } from './proof/results-page.ts';

const [name, ...args] = process.argv.slice(2);
process.exitCode = name === undefined || name === '--help' ? list() : await proveNamed(name);

function list(): number {
  const width = Math.max(...Object.keys(PROOFS).map((each) => each.length));
  const lines = Object.entries(PROOFS).map(([each, { about }]) => `  ${each.padEnd(width)}  ${about}`);
  process.stdout.write(`npm run prove NAME [-- --quick ...]; with --help its flags\n\n${lines.join('\n')}\n`);
  return 0;
}

async function proveNamed(given: string): Promise<number> {
  const proof = Object.hasOwn(PROOFS, given) ? PROOFS[given] : undefined;
  if (proof === undefined) return refuse(`Unknown proof ${given}. Choose from ${Object.keys(PROOFS).join(', ')}.`);
  if (args.includes('--help')) {
    process.stdout.write(`npm run prove ${given}: ${proof.about}\n\n${flagLines(proof).join('\n')}\n`);
    return 0;
  }
  let options: ProofOptions;
  try {
    options = parseProofOptions(given, proof, args);
  } catch (error) {
    if (error instanceof UsageError) return refuse(error.message);
    throw error;
  }
  return announce(await proof.prove(options));
}

/** Prints the verdicts; 1 if one of them failed. */
function announce(verdicts: readonly Verdict[]): number {
  process.stdout.write(`\n${verdicts.map(({ ok, text }) => `${ok ? 'ok    ' : 'FAILED'}  ${text}`).join('\n')}\n`);
  return verdicts.every(({ ok }) => ok) ? 0 : 1;
}

function refuse(reason: string): number {
  process.stderr.write(`prove: ${reason}\n`);
  return 2;
}
