// The dashboard's one script: keeps the page in step with estop, and turns buttons and forms into calls of the API.
"use strict";

const HOLD_MS = 1000;
const REFRESH_MS = 1000;

// ---- the session's second secret ----------------------------------------------------------------------------------
// The cookie alone lets a page look: browsers send it to every port of this host. Whatever changes something carries a
// secret that only the login answers. It is in the storage of this tab and this port; other tabs of the same port are asked
// for it, and programs behind other ports cannot hear that.

const SECRET = "estop-csrf";
const ASK_TABS_MS = 400;
const csrf = () => sessionStorage.getItem(SECRET) ?? "";
const tabs = new BroadcastChannel("estop-tabs");

function setSecret(secret) {
  if (secret) sessionStorage.setItem(SECRET, secret);
  else sessionStorage.removeItem(SECRET);
  showWhetherMayAct();
}

// A page without the secret shows everything and says that it cannot act, and how it can.
function showWhetherMayAct() {
  if (document.body.dataset.login) return;
  document.body.classList.toggle("is-read-only", !csrf());
  document.getElementById("log-in-here")?.setAttribute("href", loginUrl());
}

const loginUrl = () => "/login?next=" + encodeURIComponent(location.pathname + location.search);

tabs.addEventListener("message", ({ data }) => {
  if (data.ask && csrf() && !document.body.dataset.login) tabs.postMessage({ secret: csrf() });
  else if (data.secret && (data.fresh || !csrf())) setSecret(data.secret);
  else if (data.ended) setSecret("");
});
if (!document.body.dataset.login) {
  if (csrf()) showWhetherMayAct();
  else {
    tabs.postMessage({ ask: true });
    setTimeout(showWhetherMayAct, ASK_TABS_MS);
  }
}

// ---- telling the person -------------------------------------------------------------------------------------------

function say(text, bad = false) {
  const box = document.createElement("div");
  box.textContent = text;
  if (bad) box.className = "bad";
  document.getElementById("says").append(box);
  setTimeout(() => box.remove(), bad ? 12000 : 5000);
}

// ---- calling the API ----------------------------------------------------------------------------------------------

async function call(method, path, body, match) {
  const headers = { "x-estop-csrf": csrf() };
  if (match) headers["if-match"] = match;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("estop does not answer. It may be restarting: try again.");
  }
  if (answer.status === 401 && !document.body.dataset.login) {
    setSecret("");
    location.assign(loginUrl());
  }
  const text = await answer.text();
  let json = null;
  try { json = JSON.parse(text); } catch { /* an answer without a body */ }
  if (!answer.ok) throw Object.assign(new Error(json?.detail ?? `estop answered ${answer.status}.`), { status: answer.status, fields: json?.errors ?? [] });
  return json;
}

// What a form says, by the type each field has.
function values(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled) continue;
    let value;
    if (field.type === "checkbox" && field.dataset.list !== undefined) {
      if (field.checked) (body[field.name] ??= []).push(field.value);
      continue;
    } else if (field.type === "checkbox") value = field.checked;
    else if (field.dataset.list !== undefined) value = field.value.split(/[\s,]+/).filter(Boolean);
    else if (field.type === "number") value = field.value === "" ? null : Number(field.value);
    else value = field.value === "" && field.dataset.empty !== "keep" ? undefined : field.value;
    if (value !== undefined) body[field.name] = value;
  }
  return body;
}

async function carryOut(element, method, path, body) {
  element.setAttribute("aria-busy", "true");
  try {
    const json = await call(method, path, body, element.dataset.match);
    if (path === "/api/session") {
      // A login answers the secret, a logout ends it, in every tab: they share the cookie.
      setSecret(method === "POST" ? json.csrf : "");
      tabs.postMessage(method === "POST" ? { secret: json.csrf, fresh: true } : { ended: true });
    }
    const shown = element.dataset.shows && json?.[element.dataset.shows];
    if (shown) {
      const place = document.getElementById("secret");
      place.hidden = false;
      place.querySelector("code").textContent = shown;
      place.scrollIntoView({ block: "center" });
    }
    say(element.dataset.done ?? json?.message ?? "Done.");
    if (element.dataset.then) location.assign(element.dataset.then);
    element.removeAttribute("data-dirty");
    if (element.dataset.resets !== undefined) element.reset();
    element.closest("dialog")?.close();
    await refresh(true);
    // What ends a moment later, elsewhere, is looked at again then.
    for (const seconds of element.dataset.again?.split(" ") ?? []) setTimeout(() => refresh(true), seconds * 1000);
  } catch (error) {
    if (error.status === 412) {
      await refresh(true);
      say("Somebody else changed this meanwhile. Nothing was done: look at it as it is now, and try again.", true);
    } else say(error.message, true);
  } finally {
    element.removeAttribute("aria-busy");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-call]");
  if (button && !button.closest("form")) {
    const [method, path] = button.dataset.call.split(" ");
    if (button.dataset.ask && !window.confirm(button.dataset.ask)) return;
    carryOut(button, method, path, button.dataset.body ? JSON.parse(button.dataset.body) : undefined);
  }
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens).showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
  const copy = event.target.closest("[data-copies]");
  if (copy) {
    navigator.clipboard?.writeText(document.getElementById(copy.dataset.copies).textContent.trim())
      .then(() => say("Copied."), () => say("Copying did not work: select the text.", true));
  }
});

// A row leads where its name leads; links, buttons and selected text in it stay what they are.
document.addEventListener("click", (event) => {
  const row = event.target.closest("table.cards tbody tr");
  const link = row?.querySelector("td.name a");
  if (!link || event.target.closest("a, button, input, label, summary") || String(getSelection())) return;
  if (event.ctrlKey || event.metaKey) window.open(link.href);
  else link.click();
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-call]");
  if (!form) return;
  event.preventDefault();
  if (form.dataset.ask && !window.confirm(form.dataset.ask)) return;
  const [method, path] = form.dataset.call.split(" ");
  // A form with several buttons: each says what it sets beside the fields.
  const sets = event.submitter?.dataset.sets;
  carryOut(form, method, path, { ...values(form), ...(sets ? JSON.parse(sets) : {}) });
});

// Somebody is typing: what they typed is not taken away by a refresh.
document.addEventListener("input", (event) => event.target.closest("form[data-call]")?.setAttribute("data-dirty", ""));

// ---- the red button -----------------------------------------------------------------------------------------------

let holding = null, heldSince = 0;

function startHold(button) {
  if (holding || button.disabled) return;
  button.classList.add("holding");
  heldSince = Date.now();
  holding = setTimeout(() => { holding = null; endHold(button); press(button); }, HOLD_MS);
}

function endHold(button) {
  // Let go too early: nothing was stopped, and that must be said.
  if (holding && button.classList.contains("holding") && Date.now() - heldSince < HOLD_MS) {
    say(`Nothing was stopped: hold the button for ${HOLD_MS / 1000} second.`, true);
  }
  clearTimeout(holding);
  holding = null;
  button.classList.remove("holding");
}

async function press(button) {
  const form = document.getElementById(button.dataset.form ?? "");
  const body = { reason: "manual", metadata: { source: "dashboard" }, ...(form ? values(form) : {}) };
  try {
    const done = await call("POST", "/api/emergency/kill", body);
    const { model_calls, tools, messages } = done.stopped;
    const count = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
    say(`Everything is stopped (${count(model_calls, "model call")}, ${count(tools, "tool")} and ${count(messages, "message")} ended). ` +
      (done.persisted ? "Saved." : "NOT saved: after a restart estop would not know of it. Look at the disk."), !done.persisted);
    button.closest("dialog")?.close();
  } catch (error) {
    const why = csrf() ? error.message : "This tab is not logged in: log in here, or hold the button in the tab that is.";
    say("THE STOP DID NOT GO THROUGH. " + why + " Or use `estop kill` on the machine.", true);
  }
  await refresh(true);
}

for (const [down, ups] of [["pointerdown", ["pointerup", "pointercancel", "pointerleave"]]]) {
  document.addEventListener(down, (event) => {
    const button = event.target.closest("[data-hold]");
    if (!button || event.button > 0) return;
    startHold(button);
    for (const up of ups) button.addEventListener(up, () => endHold(button), { once: true });
  });
}
document.addEventListener("keydown", (event) => {
  const button = event.target.closest?.("[data-hold]");
  if (!button || (event.key !== " " && event.key !== "Enter")) return;
  event.preventDefault();
  if (!event.repeat) startHold(button);
});
document.addEventListener("keyup", (event) => {
  const button = event.target.closest?.("[data-hold]");
  if (button) endHold(button);
});
document.addEventListener("focusout", (event) => {
  const button = event.target.closest?.("[data-hold]");
  if (button) endHold(button);
});

// ---- staying in step ----------------------------------------------------------------------------------------------

let refreshing = null, lastRefresh = 0, again = false;

const morphing = () => ({
  // Of a focused field the value stays. Of a focused button the text must not.
  ignoreActiveValue: document.activeElement?.matches("input, select, textarea") ?? false,
  callbacks: {
    // What a person is working in stays as it is.
    beforeNodeMorphed: (old) => !(old instanceof Element &&
      (old.hasAttribute("data-dirty") || old.hasAttribute("data-keep") || old.classList.contains("holding") || (old.tagName === "DIALOG" && old.open))),
    beforeAttributeUpdated: (name, node) => !(node.tagName === "DETAILS" && name === "open"),
  },
});

async function refresh(now = false) {
  if (document.body.dataset.login) return;
  if (refreshing) { again = true; return; }
  const wait = now ? 0 : Math.max(0, lastRefresh + REFRESH_MS - Date.now());
  refreshing = (async () => {
    if (wait) await new Promise((done) => setTimeout(done, wait));
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected && new URL(answer.url).pathname === "/login") { location.assign(answer.url); return; }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["bar", "content"]) {
        const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
        if (old && fresh) Idiomorph.morph(old, fresh, morphing());
      }
      document.title = page.title;
    } catch { /* the stream says when estop is back */ } finally { lastRefresh = Date.now(); }
  })();
  await refreshing;
  refreshing = null;
  if (again) { again = false; refresh(); }
}

function follow() {
  const stream = new EventSource("/live");
  stream.addEventListener("changed", () => refresh());
  stream.addEventListener("pressed", () => refresh(true));
  stream.onopen = () => { if (document.body.classList.contains("is-offline")) refresh(true); document.body.classList.remove("is-offline"); };
  stream.onerror = () => {
    document.body.classList.add("is-offline");
    if (stream.readyState === EventSource.CLOSED) { setTimeout(follow, 2000); }
  };
}

if (!document.body.dataset.login) follow();

// Where the way to the pages is wider than the screen, the page one is on is in sight.
const [pages, here] = [document.querySelector("nav ul"), document.querySelector("nav [aria-current]")];
if (here) pages.scrollLeft = here.offsetLeft - pages.offsetLeft - (pages.clientWidth - here.offsetWidth) / 2;

// ---- the effect of a kill switch before it is saved ---------------------------------------------------------------

let effectSoon = null, effectAsked = null;

// The page says it: only that part is taken out of it.
async function showEffect(form) {
  clearTimeout(effectSoon);
  effectAsked?.abort();
  const place = document.getElementById("effect");
  if (!form.checkValidity()) { place.replaceChildren(); return; }
  const asked = effectAsked = new AbortController();
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`${form.dataset.effect}?${new URLSearchParams(new FormData(form))}`, { signal: asked.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...(page.getElementById("effect")?.childNodes ?? []));
  } catch {
    if (!asked.signal.aborted) place.textContent = "estop does not answer, so the effect is not known.";
  }
  if (effectAsked === asked) place.removeAttribute("aria-busy");
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-effect]");
  if (!form || event.target.type !== "number") return;
  clearTimeout(effectSoon);
  effectSoon = setTimeout(() => showEffect(form), 400);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-shows-effect]");
  if (!button) return;
  event.preventDefault();
  showEffect(button.form);
});
document.addEventListener("submit", (event) => {
  if (!event.target.closest("form[data-effect]")) return;
  clearTimeout(effectSoon);
  effectAsked?.abort();
  document.getElementById("effect").replaceChildren();
});
if (document.querySelector("form[data-effect]")) {
  // What is tried out is not part of where one is: a refresh would judge it again.
  if (location.search) history.replaceState(null, "", location.pathname);
  const now = document.querySelector("form[data-effect-now]");
  if (now) showEffect(now);
}

// ---- an agent's rules: only what was changed is sent, and a change of others is not lost ---------------------------

const ruleFields = (form) => [...form.elements].filter((field) => field.name);

function changeOf(form) {
  const change = {};
  for (const field of ruleFields(form)) {
    const text = field.value.trim();
    if (text === field.dataset.was) continue;
    const [section, key] = field.name.split(".");
    (change[section] ??= {})[key] = text === "" ? null : isNaN(text) ? text : Number(text);
  }
  return change;
}

function blame(form, errors) {
  for (const field of ruleFields(form)) field.removeAttribute("aria-invalid");
  for (const place of form.querySelectorAll(".wrong")) { place.hidden = true; place.textContent = ""; }
  for (const { field: name, message } of errors) {
    const field = form.elements[name];
    const place = field ? document.getElementById(`wrong-${name}`) : form.querySelector("[data-wrong]");
    field?.setAttribute("aria-invalid", "true");
    place.textContent = field ? message : name ? `${name}: ${message}` : message;
    place.hidden = false;
  }
  form.querySelector("[aria-invalid=true]")?.focus();
}

// Takes up what is there now, and leaves what somebody typed and did not send.
async function meet(form, sent = {}) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(form.id);
  if (!fresh) return;
  form.dataset.match = fresh.dataset.match;
  for (const field of ruleFields(form)) {
    const now = fresh.elements[field.name];
    const [section, key] = field.name.split(".");
    if (field.value === field.dataset.was || key in (sent[section] ?? {})) field.value = now.value;
    field.dataset.was = now.dataset.was;
    document.getElementById(`about-${field.name}`).replaceChildren(...fresh.querySelector(`[id="about-${field.name}"]`).childNodes);
  }
}

async function changeRules(form, change, done) {
  form.setAttribute("aria-busy", "true");
  try {
    await call("PATCH", form.dataset.rules, change, form.dataset.match);
    blame(form, []);
    say(done);
    await meet(form, change);
    if (Object.keys(changeOf(form)).length === 0) form.removeAttribute("data-dirty");
    await refresh(true);
  } catch (error) {
    if (error.status === 412) {
      await meet(form);
      blame(form, [{ field: "", message: "Somebody else changed these rules meanwhile. Nothing was saved, and what you typed is still here. " +
        "Values you did not touch are those of now: look at them and save again." }]);
    } else blame(form, error.fields?.length ? error.fields : [{ field: "", message: error.message }]);
  } finally { form.removeAttribute("aria-busy"); }
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-rules]");
  if (!form) return;
  event.preventDefault();
  const change = changeOf(form);
  if (Object.keys(change).length === 0) { blame(form, []); say("Nothing was changed."); return; }
  changeRules(form, change, "Saved.");
});
document.addEventListener("input", (event) => event.target.closest("form[data-rules]")?.setAttribute("data-dirty", ""));
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-takes-back]");
  if (!button) return;
  const [section, key] = button.dataset.takesBack.split(".");
  changeRules(button.closest("form"), { [section]: { [key]: null } }, "Reset: the file decides.");
});

// ---- a link that brings its token: what `estop demo` prints. The part after # never leaves the browser. -------------

if (document.body.dataset.login && location.hash.startsWith("#token=")) {
  document.getElementById("token").value = decodeURIComponent(location.hash.slice("#token=".length));
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("form[data-call]").requestSubmit();
}
