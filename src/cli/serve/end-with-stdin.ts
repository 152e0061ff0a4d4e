/** A signal that also aborts when stdin closes: when the process at its other end closes it or dies, even by SIGKILL. */
export function endWithStdin(signal: AbortSignal): AbortSignal {
  const ended = new AbortController();
  for (const event of ['end', 'close', 'error']) process.stdin.once(event, () => ended.abort(new Error('stdin was closed')));
  process.stdin.resume();
  return AbortSignal.any([signal, ended.signal]);
}
