/** The token of `#token=TOKEN` or `#token=TOKEN&/screen?...`: kept for this tab, and removed from the address, so that a copied address does not contain it. */
const KEY = 'vf-view-token';

export function tokenOfFragment(): string | null {
  const found = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (found === null) return kept();
  const token = decodeURIComponent(found[1] ?? '');
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // A browser without storage needs the token again after a reload.
  }
  history.replaceState(null, '', `#${found[2] === '' ? '/' : found[2]}`);
  return token;
}

function kept(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
