"""What every registered engine keeps to; the toy engine is registered here, and is asked all that the others are."""

from perseid.runtime.registry import engines, register
from tests.contract.toy import TOY

if TOY.name not in engines():
    register(TOY)
