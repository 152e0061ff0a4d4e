/** Starts the page. */
import { render } from 'preact';
import { App } from './app.tsx';

const page = document.querySelector('#page');
if (page !== null) {
  page.replaceChildren();
  render(<App />, page);
}
