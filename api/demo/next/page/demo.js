// Keeps the page up to date. Without this file the page has a link for that.
const byId = (id) => document.getElementById(id);
const status = byId("status"); // what became of the last click
const lost = byId("lost"); // whether the demo is there
const pause = byId("pause");
let paused = false;
let held = {};

function show(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = byId(name);
    const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
    place.innerHTML = html; // made by the same templates as the page, which escape
    if (focused && byId(focused)) byId(focused).focus();
  }
}

const source = new EventSource("/events");
source.onmessage = (event) => {
  const parts = JSON.parse(event.data);
  lost.textContent = "";
  if (!paused) return show(parts);
  if (parts.orders) held.orders = parts.orders;
  delete parts.orders;
  show(parts);
};
source.onerror = () => { lost.textContent = "The demo does not answer. Is it still running?"; };

byId("pausing").hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  if (!paused) { show(held); held = {}; }
});

// Forms are sent without leaving the page; the answer shows up by itself.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  event.preventDefault();
  const order = form.elements.orderId;
  const body = order ? new URLSearchParams({ orderId: order.value }) : undefined;
  const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } })
    .catch(() => null);
  const text = answer ? await answer.json().catch(() => ({})) : { error: "The demo does not answer." };
  if (order && text.status) status.textContent = `Order ${text.orderId}: ${text.status}.`;
  else status.textContent = text.error || text.meaning || "";
});
