import { VfError } from '../core/errors.ts';
import { proxyFor } from '../transport/proxy.ts';
import { type Finding, missing, ok } from '../sessions/finding.ts';

/** The proxies that requests to other machines go through; none if no variable names one. */
export function checkProxies(variables: Readonly<Record<string, string | undefined>>): Finding[] {
  try {
    const used = ['http', 'https'].flatMap((scheme) => {
      const proxy = proxyFor(new URL(`${scheme}://another-machine.invalid`), variables);
      return proxy === null ? [] : [`${scheme} goes through ${proxy.text}`];
    });
    if (used.length === 0) return [];
    const exceptions = variables['no_proxy'] ?? variables['NO_PROXY'] ?? '';
    return [ok('proxy', `${used.join(', ')}; straight to loopback${exceptions === '' ? '' : ` and to ${exceptions}`}`)];
  } catch (error) {
    if (!(error instanceof VfError)) throw error;
    return [missing('proxy', error.message, 'correct or unset the variable')];
  }
}
