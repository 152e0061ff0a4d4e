/** Reads which version of the weights sampled which token, as a vLLM server says that changes its weights during a generation. */
import { PolicyError } from '../core/errors.ts';
import { spansProblem, type VersionSpan } from '../core/version-spans.ts';
import { quotation } from '../transport/quotes.ts';
import type { PolicyVersions } from './policy-versions.ts';

/** The tokens [start, end) of a generation and the label that the weights had. */
interface LabelledTokens {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Throws PolicyError unless the labels are those of published versions and cover all tokens: a token of unknown weights cannot be trained on. The error may be retried where the server
 * has lost its label, which the run gives it again.
 */
export function sampledVersions(
  labelled: readonly LabelledTokens[] | null | undefined,
  tokens: number,
  { versions, where }: { readonly versions: Pick<PolicyVersions, 'versionNamed'>; readonly where: string },
): readonly VersionSpan[] {
  if (!labelled) throw new PolicyError(`${where} did not say which weights sampled its tokens (weight_versions). Use vLLM 0.32 or later`);
  let at = 0;
  const spans = labelled.map(({ version: label, start, end }) => {
    const version = versions.versionNamed(label);
    if (version === null)
      throw new PolicyError(
        `${where} sampled tokens with the weights ${quotation(label)}, which this run has not published: the server was restarted, or another program changes its weights`,
        { retryable: true },
      );
    if (start !== at) throw new PolicyError(`${where} names the weights of the tokens from ${start} on after those up to ${at}`);
    at = end;
    return { version, tokens: end - start };
  });
  const problem = spansProblem(spans, tokens);
  if (problem !== null) throw new PolicyError(`${where} names the weights of other tokens than it sampled: its ${problem}`);
  return spans;
}
